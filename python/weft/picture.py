"""Which pairs a pattern keeps, to look at."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _weft
from ._sources import Source, add_places
from ._words import spell_params
from .errors import ArgumentError, PatternError

__all__ = ["Picture"]

_TEXT_CELLS, _FILE_CELLS, _PIXELS = 64, 512, 768


class Picture:
    """Queries down, keys across; the colour is by how many branches a pair is kept. `str` are lines of shades for a terminal,
    notebooks show the SVG. A cell is one pair, or where there are many the share of it that is kept."""

    def __init__(self, request: Mapping[str, Any], tokens: int | None, keys: int | None, head: int,
                 inputs: Mapping[str, Any] | None) -> None:  # fmt: skip
        for name, value in (("tokens", tokens), ("keys", keys)):
            if value is not None and value < 1:
                raise ArgumentError(f"{name} is {value}; expected 1 or more")
        self._said = (_weft.Request(**request), tokens or 0, keys or 0, head)
        self._inputs = inputs
        self._drawn: dict[int, _weft.Picture] = {}
        self._of(_TEXT_CELLS)  # what is wrong is told here

    def _of(self, cells: int) -> _weft.Picture:
        if cells not in self._drawn:
            self._drawn[cells] = _weft.Picture(*self._said, cells, self._inputs)
        return self._drawn[cells]

    def __str__(self) -> str:
        return self._of(_TEXT_CELLS).text

    def __repr__(self) -> str:
        made = self._of(_TEXT_CELLS)
        return f"<weft.Picture of {made.n_q} queries and {made.n_k} keys>"

    def _repr_svg_(self) -> str:
        return self._of(_FILE_CELLS).svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """As `.svg` or `.png`."""
        name = os.fspath(path)
        if not name.endswith((".svg", ".png")):
            raise ArgumentError(f"'{name}': expected a name in .svg or .png")
        data = _png(self._of(_FILE_CELLS)) if name.endswith(".png") else self._repr_svg_().encode()
        with open(name, "wb") as file:
            file.write(data)

    def figure(self) -> Any:
        """A figure of matplotlib, which must be installed, with positions on its axes."""
        import importlib

        Figure: Any = importlib.import_module("matplotlib.figure").Figure
        made = self._of(_FILE_CELLS)
        figure = Figure(figsize=(6, 6))
        axes = figure.subplots()
        width = 3 * made.columns
        colors = [list(zip(*[iter(made.colors[y * width : (y + 1) * width])] * 3)) for y in range(made.rows)]
        axes.imshow(colors, extent=(0, made.n_k, made.n_q, 0), interpolation="nearest")
        axes.set_xlabel("keys")
        axes.set_ylabel("queries")
        return figure


def picture_of(source: Source, tokens: int | None, head: int, keys: int | None, inputs: Mapping[str, Any] | None,
               params: Mapping[str, Any]) -> Picture:  # fmt: skip
    request = source.request(spell_params(params))
    try:
        return Picture(request, tokens, keys, head, inputs)
    except PatternError as error:
        add_places(error, source)
        raise


def _png(made: _weft.Picture) -> bytes:
    """A few pixels a cell."""
    import struct
    import zlib

    zoom = max(1, _PIXELS // max(made.columns, made.rows))
    width = 3 * made.columns
    lines = bytearray()
    for y in range(made.rows):
        row = made.colors[y * width : (y + 1) * width]
        line = b"".join(row[x : x + 3] * zoom for x in range(0, width, 3))
        lines += (b"\0" + line) * zoom  # no filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", zoom * made.columns, zoom * made.rows, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(bytes(lines))), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
