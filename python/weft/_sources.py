"""What users name a pattern by, as text of the language."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any, NamedTuple, Protocol, Union

from . import _weft
from .errors import PatternError


class Place(NamedTuple):
    """Where in a Python program a part of the text comes from."""

    text: str
    what: str
    """`the function <lambda> in model.py, line 12`"""


class Source(NamedTuple):
    text: str
    pattern: str
    """Name of the pattern; empty: the only one of the text."""
    name: str
    """What messages call the text."""
    places: tuple[Place, ...] = ()

    def request(self, params: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        """What of a `_weft.Request` it says."""
        spelled = [f"{name}={value}" for name, value in params]
        return {"text": self.text, "pattern": self.pattern, "source_name": self.name, "params": spelled}


class HasSource(Protocol):
    """A `weft.Set` or a `weft.Pattern`."""

    def __weft_source__(self) -> Source: ...


PatternSource = Union[str, "os.PathLike[str]", HasSource]


def add_places(error: PatternError, source: Source) -> None:
    """A note for each function whose text is found at fault."""
    encoded = source.text.encode()
    for place in dict.fromkeys(source.places):
        begin = encoded.find(place.text.encode())
        end = begin + len(place.text.encode())
        if begin >= 0 and any(d.begin < end and begin < d.end for d in error.diagnostics):
            note = f"traced from {place.what}"
            add_note: Any = getattr(error, "add_note", None)
            if add_note is not None:
                add_note(note)
            else:  # Python 3.10
                error.args = (f"{error.args[0]}\n{note}",)


@functools.lru_cache(maxsize=None)
def library() -> dict[str, str]:
    """The text in which each pattern of the library stands, by the pattern's name."""
    import re

    found: dict[str, str] = {}
    for number in itertools.count():
        text = _weft.library_text(number)
        if text is None:
            return found
        for name in re.findall(r"^pattern (\w+)", text, re.MULTILINE):
            found[name] = text
    raise AssertionError("unreachable")


def _of_library(name: str) -> Source:
    texts = library()
    if name not in texts:
        import difflib

        near = difflib.get_close_matches(name, texts, n=1)
        advice = f"did you mean '{near[0]}'?" if near else "there are: " + ", ".join(sorted(texts))
        raise PatternError(f"the library has no pattern '{name}'; {advice}")
    return Source(texts[name], name, f"<{name}>")


def source_of(source: Any, pattern: str | None = None) -> Source:
    """Text where there is a `{`, a file where a path is given or the name ends in `.weft`, else a name of the library."""
    name = pattern or ""
    is_text = isinstance(source, str)  # asked first: the other questions cost microseconds
    if not is_text and hasattr(type(source), "__weft_source__"):
        made: Source = source.__weft_source__()
        return made
    if is_text and "{" in source:
        return Source(source, name, "<pattern>")
    if (is_text and source.endswith(".weft")) or (not is_text and isinstance(source, os.PathLike)):
        path = os.fspath(source)
        with open(path, encoding="utf-8") as file:
            return Source(file.read(), name, path)
    if is_text:
        if pattern is not None:
            raise PatternError(f"'{source}' is a name of the library; 'pattern' chooses from a text or a file")
        return _of_library(source)
    raise TypeError(
        f"the pattern is a {type(source).__name__}; expected a name of the library, text, a path, a weft.Set or a weft.Pattern"
    )
