"""Sets of query-key pairs, joined by `&`, `|`, `-` and `~`. Each is text of the language, which `set.text` shows;
docs/language.md has a picture of every one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._sources import Place, Source
from ._words import spell
from .expressions import Input, input, merged, trace
from .picture import Picture, picture_of

__all__ = [
    "Set", "all_", "axial", "blocks", "causal", "dilated", "document", "global_", "lag", "lengths", "neighborhood",
    "prefix", "random", "segment", "sink", "strided", "table", "top", "where", "window",
]  # fmt: skip

_UNION, _DIFFERENCE, _INTERSECTION, _ATOM = range(1, 5)


class Set:
    """Which pairs are kept. Equal texts are equal sets."""

    __slots__ = ("text", "inputs", "places", "_binds")

    def __init__(self, text: str, inputs: tuple[Input, ...] = (), places: tuple[Place, ...] = (), binds: int = _ATOM) -> None:
        self.text, self.inputs, self.places, self._binds = text, inputs, places, binds

    def __and__(self, other: Set) -> Set:
        return _joined("&", _INTERSECTION, self, other)

    def __or__(self, other: Set) -> Set:
        return _joined("|", _UNION, self, other)

    def __sub__(self, other: Set) -> Set:
        return _joined("-", _DIFFERENCE, self, other)

    def __invert__(self) -> Set:
        return Set(f"!{self._inside(_ATOM)}", self.inputs, self.places)

    def __bool__(self) -> bool:
        raise TypeError("a set is not true or false: write `&`, `|`, `~` for `and`, `or`, `not`")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Set) and (self.text, self.inputs) == (other.text, other.inputs)

    def __hash__(self) -> int:
        return hash((self.text, self.inputs))

    def __repr__(self) -> str:
        return f"<weft.Set {self.text}>"

    def _inside(self, binds: int) -> str:
        return self.text if self._binds >= binds else f"({self.text})"

    def draw(self, tokens: int | None = 64, head: int = 0, *, keys: int | None = None, inputs: Mapping[str, Any] | None = None) -> Picture:
        """Which pairs are kept: see `weft.Pattern.draw`."""
        return picture_of(self.__weft_source__(), tokens, head, keys, inputs, {})

    def _repr_svg_(self) -> str:
        return self.draw(None)._repr_svg_()

    def __weft_source__(self) -> Source:
        """A pattern of this one branch."""
        lines = [*(one.text for one in self.inputs), f"branch {self.text};"]
        text = "pattern python {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
        return Source(text, "python", "<python>", self.places)


def _joined(word: str, binds: int, left: Set, right: Any) -> Set:
    if not isinstance(right, Set):
        raise TypeError(f"`{word}` of a set and a {type(right).__name__}; expected another set, such as weft.where(function)")
    right_binds = binds + 1 if word == "-" else binds
    text = f"{left._inside(binds)} {word} {right._inside(right_binds)}"
    return Set(text, merged((left.inputs, right.inputs)), left.places + right.places, binds)


def _call(word: str, *by_place: Any, **by_name: Any) -> Set:
    """A word of the language with its arguments; None is left out."""
    arguments = [spell(value, f"an argument of {word}") for value in by_place]
    arguments += [f"{name}: {_spelled(value, word)}" for name, value in by_name.items() if value is not None]
    return Set(f"{word}({', '.join(arguments)})")


def _spelled(value: Any, word: str) -> str:
    """Text is the language's already, such as a phase `h % 2`."""
    return value if isinstance(value, str) else spell(value, f"an argument of {word}")


def _input(given: str | Input, dtype: str, *axes: int | str) -> Input:
    return given if isinstance(given, Input) else input(given, dtype, *axes)


all_ = Set("all")
"""Every pair."""
causal = Set("causal")
"""`k <= q`"""
axial = Set("axial")
"""On a grid: at most one coordinate differs."""


def window(before: int, after: int | None = None) -> Set:
    """`q - before <= k <= q + after`; both sides alike where `after` is left out."""
    return _call("window", before, before if after is None else after)


def segment(width: int) -> Set:
    """The same run of `width` tokens."""
    return _call("segment", width)


def dilated(segment: int, rate: int, phase: int | str = 0, queries: str | None = None) -> Set:
    """The same segment, and in it every `rate`-th query and key from `phase` on; with `queries="all"` every query."""
    return _call("dilated", segment=segment, rate=rate, phase=phase, queries=queries)


def strided(step: int, phase: int = 0) -> Set:
    """`k % step == phase % step`"""
    return _call("strided", step, phase=phase)


def lag(step: int) -> Set:
    """`(q - k) % step == 0`"""
    return _call("lag", step)


def sink(count: int) -> Set:
    """The first `count` keys."""
    return _call("sink", count)


def global_(count: int) -> Set:
    """The first `count` keys for all queries, and all keys for the first `count` queries."""
    return _call("global", count)


def prefix(count: int) -> Set:
    """The first `count` keys; with `| causal` a prefix LM."""
    return _call("prefix", count)


def neighborhood(size: int | Sequence[int], dilation: int | Sequence[int] | None = None,
                 stride: int | Sequence[int] | None = None, causal: bool | Sequence[bool] | None = None) -> Set:  # fmt: skip
    """The nearest keys as NATTEN has them; a value per axis where the pattern has a grid."""
    return _call("neighborhood", size=size, dilation=dilation, stride=stride, causal=causal)


def blocks(size: int, of: Set) -> Set:
    """`of` holds for the numbers of the blocks of `size` tokens in which query and key lie."""
    return Set(f"blocks({spell(size)}, {of.text})", of.inputs, of.places)


def random(count: int, seed: int = 0) -> Set:
    """`count` keys for each head and query, drawn by the seed; mostly inside `blocks`."""
    return _call("random", count, seed=seed)


def top(count: int, by: str | Input = "pooled", causal: bool | None = None) -> Set:
    """Inside `blocks`: the `count` blocks of keys that score best, by their means or by an input
    f32[batch, heads, blocks, blocks]."""
    made = _call("top", count, by=f"input({by.name})" if isinstance(by, Input) else by, causal=causal)
    return Set(made.text, (by,)) if isinstance(by, Input) else made


def document(ids: str | Input) -> Set:
    """Query and key in the same document: an input i32[batch, tokens], or its name."""
    declared = _input(ids, "i32", "batch", "tokens")
    return Set(f"document({declared.name})", (declared,))


def lengths(of: str | Input) -> Set:
    """Both below the length of their batch entry: an input i32[batch], or its name."""
    declared = _input(of, "i32", "batch")
    return Set(f"lengths({declared.name})", (declared,))


def table(kept: str | Input, *axes: int | str) -> Set:
    """An input u8, or its name and axes, is not 0 for the pair; mostly inside `blocks`: `table("m", "heads", "blocks", "blocks")`."""
    declared = _input(kept, "u8", *axes)
    return Set(f"table({declared.name})", (declared,))


def where(function: Callable[..., Any]) -> Set:
    """Every pair for which the function holds: of some of (b, h, q, k, n_q, n_k, H), or a mask_mod of FlexAttention. It is
    called once, with symbols.

    >>> where(lambda q, k: (k <= q) & ((q - k) % 3 == 0)).text
    'where(k <= q and (q - k) % 3 == 0)'
    """
    made, place = trace(function, scores=False)
    return Set(f"where({made.text})", made.inputs, (place,))
