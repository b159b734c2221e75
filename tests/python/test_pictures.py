"""Pictures of what is kept: pixel by pixel, from masks that are written down here."""

import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

import weft

BACKGROUND = (24, 26, 32)


def pixels_of_svg(svg):
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(int, root.get("viewBox").split())
    grid = np.zeros((height, width), "U7")
    for rectangle in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (int(rectangle.get(name, 0)) for name in ("x", "y", "width", "height"))
        grid[y : y + h, x : x + w] = rectangle.get("fill")
    return grid


def pixels_of_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + size
    width, height, depth, color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, color) == (8, 2)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def kept(svg):
    return pixels_of_svg(svg) != "#{:02x}{:02x}{:02x}".format(*BACKGROUND)


Q, K = np.arange(24)[:, None], np.arange(24)


@pytest.mark.parametrize(
    "drawn, want",
    [
        (lambda: weft.window(5, 0), (K <= Q) & (K >= Q - 5)),
        (lambda: weft.pattern(weft.sink(2) | weft.segment(8), keep=weft.causal), ((K < 2) | (Q // 8 == K // 8)) & (K <= Q)),
        (lambda: weft.where(lambda q, k: (q - k) % 7 == 3), (Q - K) % 7 == 3),
        (lambda: weft.compile("window", width=4, dim=8, dtype="f32"), (K <= Q) & (K > Q - 4)),
    ],
)
def test_svg(drawn, want):
    assert np.array_equal(kept(drawn().draw(24)._repr_svg_()), want)


def test_heads_keys_and_parameters():
    by_head = weft.where(lambda h, q, k: k <= q + h)
    assert np.array_equal(kept(by_head.draw(24, 3)._repr_svg_()), K <= Q + 3)
    few = kept(weft.causal.draw(5, keys=24)._repr_svg_())  # the last query meets the last key
    assert few.shape == (5, 24) and np.array_equal(few, K <= Q[:5] + 19)
    named = weft.Pattern.parse("pattern near(width: int = 2) {\n  keep window(width, 0);\n}")
    assert np.array_equal(kept(named.draw(24, width=4)._repr_svg_()), (K <= Q) & (K >= Q - 4))


def test_inputs():
    ids = weft.input("ids", "i32", "batch", "tokens")
    pattern = weft.document(ids)
    given = np.repeat(np.arange(3, dtype=np.int32), 8)[None]
    assert np.array_equal(kept(pattern.draw(24, inputs={"ids": given})._repr_svg_()), Q // 8 == K // 8)
    assert np.array_equal(kept(pattern.draw(24)._repr_svg_()), Q // 3 == K // 3), "eight documents where none are given"
    whole = weft.lengths("n") & weft.causal
    assert np.array_equal(kept(whole.draw(24)._repr_svg_()), K <= Q)
    some = kept(whole.draw(24, inputs={"n": [9]})._repr_svg_())
    assert np.array_equal(some, (K <= Q) & (Q < 9))
    with pytest.raises(weft.ArgumentError, match="no input 'other'"):
        pattern.draw(24, inputs={"other": given})
    with pytest.raises(weft.ArgumentError, match="ids"):
        pattern.draw(24, inputs={"ids": given[:, :5].copy()})


def test_colours_tell_how_often_a_pair_is_kept():
    twice = weft.pattern(weft.all_, weft.causal).draw(24)
    grid = pixels_of_svg(twice._repr_svg_())
    assert len({*grid[K <= Q]}) == 1 and len({*grid[K > Q]}) == 1 and grid[0, 0] != grid[0, 1]


def test_text_and_files(tmp_path):
    picture = weft.causal.draw(6)
    assert str(picture) == "queries down 0..5, keys across 0..5, head 0\n  █▒\n  ███▒\n  █████▒\n"
    assert repr(picture) == "<weft.Picture of 6 queries and 6 keys>"
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == picture._repr_svg_()
    picture.save(str(tmp_path / "x.png"))
    found = pixels_of_png((tmp_path / "x.png").read_bytes())
    assert found.shape == (768, 768, 3)
    small = found[64::128, 64::128]
    assert np.array_equal((small != BACKGROUND).any(-1), np.tri(6, dtype=bool))
    assert (found == np.repeat(np.repeat(small, 128, 0), 128, 1)).all()
    with pytest.raises(weft.ArgumentError, match="expected a name in .svg or .png"):
        picture.save("x.jpg")


def test_long_sequences_are_sampled_at_once():
    svg = weft.causal.draw(1_000_000)._repr_svg_()
    assert "1000000 queries, 1000000 keys" in svg
    grid = kept(svg)
    assert max(grid.shape) <= 512
    inside = np.tri(len(grid), k=-2, dtype=bool)
    assert grid[inside].all() and not grid[np.triu(np.ones_like(grid), 2)].any()


def test_notebooks_show_the_pattern():
    for shown in (weft.causal, weft.pattern(weft.causal), weft.compile("causal", dim=8, dtype="f32")):
        assert shown._repr_svg_() == shown.draw(None)._repr_svg_()


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: weft.causal.draw(0), weft.ArgumentError, "tokens is 0; expected 1 or more"),
        (lambda: weft.causal.draw(8, 9), weft.ArgumentError, "head 9 of 8 heads"),
        (lambda: weft.table("m", "no such axis").draw(8), weft.PatternError, "no such axis"),
        (lambda: weft.neighborhood(9).draw(4), weft.ArgumentError, "neighborhood"),
    ],
)
def test_what_cannot_be_drawn(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_figure():
    pytest.importorskip("matplotlib")
    (axes,) = weft.causal.draw(24).figure().axes
    (image,) = axes.images
    assert np.array_equal((image.get_array()[..., :3] != BACKGROUND).any(-1), np.tri(24, dtype=bool))
    assert axes.get_xlabel() == "keys" and axes.get_ylabel() == "queries"
