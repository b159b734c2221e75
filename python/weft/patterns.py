"""Patterns made of sets: branches, what is kept of them, and how pairs are scored."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _weft
from ._sources import Place, Source
from ._words import spell
from .errors import ArgumentError
from .expressions import Input, merged, trace
from .picture import Picture, picture_of
from .sets import Set

__all__ = ["Branches", "Pattern", "branches", "pattern"]

_COMBINING = ("joint", "joint detached", "union", "sum", "mean")


class Pattern:
    """A pattern of the language. Equal texts are equal patterns."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    @classmethod
    def parse(cls, text: str, pattern: str | None = None) -> Pattern:
        """Of a text, which is read: `PatternError` tells what is wrong. `pattern` chooses where there are several."""
        return cls._read(Source(text, pattern or "", "<pattern>"))

    @classmethod
    def load(cls, path: str | os.PathLike[str], pattern: str | None = None) -> Pattern:
        """Of a file."""
        with open(path, encoding="utf-8") as file:
            return cls._read(Source(file.read(), pattern or "", os.fspath(path)))

    @classmethod
    def _read(cls, source: Source) -> Pattern:
        found = _weft.Pattern(_weft.Request(source.text, pattern=source.pattern, source_name=source.name))
        return cls(source._replace(pattern=found.name))

    @property
    def text(self) -> str:
        """What is compiled."""
        return self._source.text

    @property
    def name(self) -> str:
        """Of the pattern in the text."""
        return self._source.pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and (self.text, self.name) == (other.text, other.name)

    def __hash__(self) -> int:
        return hash((self.text, self.name))

    def __repr__(self) -> str:
        return f"<weft.Pattern {self.name}>"

    def __str__(self) -> str:
        return self.text

    def __weft_source__(self) -> Source:
        return self._source

    def draw(self, tokens: int | None = 64, head: int = 0, *, keys: int | None = None, inputs: Mapping[str, Any] | None = None,
             **params: Any) -> Picture:  # fmt: skip
        """Which pairs are kept of so many queries (None: as many as show the pattern), and as many keys where `keys` is left out; `params` are parameters of the text.
        Inputs that are not given are made up: documents of an eighth of the tokens, whole lengths."""
        return picture_of(self._source, tokens, head, keys, inputs, params)

    def _repr_svg_(self) -> str:
        return self.draw(None)._repr_svg_()


class Branches(NamedTuple):
    """Dilated branches; see `branches`."""

    text: str


def branches(segments: Sequence[int], rates: Sequence[int], phase: int | str | None = None,
             heads: str | Sequence[tuple[int, int]] | None = None, queries: str | None = None) -> Branches:  # fmt: skip
    """A dilated branch for each pair of segment and rate. `phase` as the language spells it (`"i % rate"`); `heads`: `all`,
    `groups`, `groups_last`, or a `(first, behind the last)` for each branch; `queries="all"`: every query of a segment
    sees the dilated keys."""
    arguments = [f"segments: {spell(segments)}", f"rates: {spell(rates)}"]
    if phase is not None:
        arguments.append(f"phase: {phase if isinstance(phase, str) else spell(phase)}")
    if heads is not None:
        ranges = heads if isinstance(heads, str) else "[" + ", ".join(f"{spell(a)}..{spell(b)}" for a, b in heads) + "]"
        arguments.append(f"heads: {ranges}")
    if queries is not None:
        arguments.append(f"queries: {queries}")
    return Branches(f"branches dilated({', '.join(arguments)});")


def pattern(*parts: Set | Branches, keep: Set | None = None, combine: str | None = None,
            score: Callable[..., Any] | None = None, scale: float | None = None, dropout: float | None = None,
            inputs: Sequence[Input] = (), grid: Sequence[int] | None = None, name: str = "python") -> Pattern:  # fmt: skip
    """A pattern of branches, each a set or what `branches` makes; without any it is one of all pairs.

    `keep` is intersected with each. `combine`: `joint` (one softmax over the branches, pairs count as often as they are
    kept), `joint detached`, `union`, `sum` or `mean` (a softmax for each). `score`: a function of some of
    (s, b, h, q, k, n_q, n_k, H), or a score_mod of FlexAttention, called once with symbols; s is the scaled dot product.
    `scale`: its factor, 1/sqrt(d) where it is left out. `dropout`: probability. `inputs`: those that nothing else
    declares. `grid`: extents of 2 or 3 axes of tokens.

    >>> from weft.sets import causal, window, sink
    >>> print(pattern(window(63, 0) | sink(4), keep=causal, score=lambda s, q, k: s - 0.1 * (q - k)))
    pattern python {
      branch window(63, 0) | sink(4);
      keep causal;
      score s - 0.1 * (q - k);
    }
    <BLANKLINE>
    """
    lines: list[str] = []
    declared: list[Sequence[Input]] = [inputs]
    places: tuple[Place, ...] = ()
    if grid is not None:
        lines.append("grid " + ", ".join(spell(extent, "grid") for extent in grid) + ";")
    for part in parts:
        if isinstance(part, Branches):
            lines.append(part.text)
        elif isinstance(part, Set):
            lines.append(f"branch {part.text};")
        else:
            raise TypeError(f"a branch is a {type(part).__name__}; expected a weft.Set or weft.branches(…)")
    sets = [part for part in parts if isinstance(part, Set)]
    if keep is not None:
        if not isinstance(keep, Set):
            raise TypeError(f"keep is a {type(keep).__name__}; expected a weft.Set")
        sets.append(keep)
        lines.append(f"keep {keep.text};")
    for one in sets:
        declared.append(one.inputs)
        places += one.places
    if combine is not None:
        if combine not in _COMBINING:
            raise ArgumentError(f"combine is '{combine}'; expected one of {', '.join(_COMBINING)}")
        lines.append(f"combine {combine};")
    if scale is not None:
        lines.append(f"scale {spell(float(scale), 'scale')};")
    if score is not None:
        made, place = trace(score, scores=True)
        declared.append(made.inputs)
        places += (place,)
        lines.append(f"score {made.text};")
    if dropout:
        lines.append(f"dropout {spell(float(dropout), 'dropout')};")
    every = [one.text for one in merged(declared)]
    text = f"pattern {name} {{\n" + "".join(f"  {line}\n" for line in every + lines) + "}\n"
    return Pattern(Source(text, name, "<python>", places))
