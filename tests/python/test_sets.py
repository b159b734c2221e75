"""Sets and patterns of Python: what they are as text, and that random ones keep what their NumPy twins keep."""

import numpy as np
import pytest
from reference import attend, bound, by_groups, dilated, neighborhood, positions

import weft

N = 41
Q, K = positions(N, N)


def draw_set(rng, depth):
    """A set, and the same as a mask."""
    kind = rng.integers(14 if depth > 0 else 10)
    a, b = int(rng.integers(0, 12)), int(rng.integers(1, 9))
    if kind == 0:
        return weft.window(a, b), (Q - a <= K) & (K <= Q + b)
    if kind == 1:
        return weft.causal, K <= Q
    if kind == 2:
        return weft.segment(b + 3), Q // (b + 3) == K // (b + 3)
    if kind == 3:
        rate = 1 + a % 4
        return weft.dilated(b + 7, rate, phase=a % rate), dilated(Q, K, b + 7, rate, a % rate)
    if kind == 4:
        return weft.strided(b, phase=a), np.broadcast_to(K % b == a % b, Q.shape[:1] + K.shape[1:])
    if kind == 5:
        return weft.lag(b), (Q - K) % b == 0
    if kind == 6:
        return (weft.global_(b), (K < b) | (Q < b)) if a % 2 else (weft.sink(b), (K < b) & (Q >= 0))
    if kind == 7:
        return weft.where(lambda q, k: (q + a) // b >= k - 2 * b), (Q + a) // b >= K - 2 * b
    if kind == 8:
        return weft.where(lambda q, k: ((q * k + a) % (b + 1) == 0) | ~(abs(q - k) < b)), ((Q * K + a) % (b + 1) == 0) | (abs(Q - K) >= b)
    if kind == 9:
        return weft.neighborhood(b + 1), neighborhood(Q, K, N, b + 1)
    (left, of_left), (right, of_right) = draw_set(rng, depth - 1), draw_set(rng, depth - 1)
    if kind == 10:
        return left & right, of_left & of_right
    if kind == 11:
        return left | right, of_left | of_right
    if kind == 12:
        return left - right, of_left & ~of_right
    return ~left, ~of_left


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.filterwarnings("ignore::weft.PatternWarning")
def test_random_sets(seed):
    rng = np.random.default_rng(seed)
    made, mask = draw_set(rng, 3)
    q, k, v = (rng.standard_normal((1, N, 2, 8)).astype(np.float32) for _ in range(3))
    if not mask.any():
        pytest.skip("keeps no pair")
    try:
        found = weft.attention(q, k, v, made)
    except weft.PatternError as error:
        assert "keeps no pair" in str(error) or "never" in str(error), made.text
        pytest.skip("refused")
    np.testing.assert_allclose(found, attend(q, k, v, [mask])[0], atol=bound(v, N), err_msg=made.text)


def test_operators_keep_their_meaning_as_text():
    a, b, c = weft.window(3), weft.sink(2), weft.causal
    assert ((a | b) & c).text == "(window(3, 3) | sink(2)) & causal"
    assert (a | b & c).text == "window(3, 3) | sink(2) & causal"
    assert (a - (b - c)).text == "window(3, 3) - (sink(2) - causal)"
    assert (a - b - c).text == "window(3, 3) - sink(2) - causal"
    assert (~(a | b)).text == "!(window(3, 3) | sink(2))"
    assert ((a & b) - c).text == "window(3, 3) & sink(2) - causal"


def test_equal_texts_are_equal():
    assert weft.window(3) == weft.window(3, 3) and hash(weft.window(3)) == hash(weft.window(3, 3))
    assert weft.document("doc") != weft.document("other")
    assert weft.pattern(weft.causal) == weft.pattern(weft.causal) != weft.pattern(weft.all_)
    assert len({weft.pattern(weft.causal), weft.pattern(weft.causal)}) == 1


def test_every_word_is_accepted(rng):
    x = rng.standard_normal((1, 64, 2, 8)).astype(np.float32)
    mask = weft.input("mask", "u8", "heads", "blocks", "blocks")
    scorer = weft.input("scorer", "f32", "batch", "heads", "blocks", "blocks")
    for made, inputs in {
        weft.prefix(5) | weft.causal: {},
        weft.blocks(8, weft.random(2, seed=3) | weft.window(0)): {},
        weft.blocks(8, weft.table(mask)): {"mask": np.ones((2, 8, 8), np.uint8)},
        weft.blocks(8, weft.top(2)) & weft.causal: {},
        weft.blocks(8, weft.top(2, by=scorer)): {"scorer": rng.standard_normal((1, 2, 8, 8)).astype(np.float32)},
        weft.document("doc") & weft.causal: {"doc": np.zeros((1, 64), np.int32)},
        weft.lengths("valid"): {"valid": [64]},
        weft.dilated(16, 2, queries="all"): {},
        weft.dilated(16, 2, phase="h % 2"): {},
    }.items():
        assert np.isfinite(weft.attention(x, x, x, made, inputs=inputs)).all(), made.text
    grid = weft.pattern(weft.neighborhood([3, 5]) & weft.axial, grid=(8, 8))
    assert np.isfinite(weft.attention(x, x, x, grid)).all()


def test_patterns_combine(tensors):
    q, k, v = tensors(n_q=N)
    parts = [dilated(Q, K, 8, 1, 0) & by_groups(4, 2, 0), dilated(Q, K, 16, 2, 1) & by_groups(4, 2, 1)]
    made = weft.pattern(weft.branches([8, 16], [1, 2], phase="i % rate", heads="groups"), combine="mean")
    np.testing.assert_allclose(weft.attention(q, k, v, made), attend(q, k, v, parts, "mean")[0], atol=2 * bound(v, N))
    by_hand = weft.pattern(weft.branches([8, 16], [1, 2], phase="i % rate", heads=[(0, 2), (2, 4)]), combine="mean")
    np.testing.assert_array_equal(weft.attention(q, k, v, by_hand), weft.attention(q, k, v, made))
    for combine in ("joint", "union"):
        made = weft.pattern(weft.window(4), weft.segment(9), keep=weft.causal, combine=combine, scale=0.5)
        masks = [(abs(Q - K) <= 4) & (K <= Q), (Q // 9 == K // 9) & (K <= Q)]
        want, _ = attend(q, k, v, masks, combine, scale=0.5)
        np.testing.assert_allclose(weft.attention(q, k, v, made), want, atol=bound(v, N, 16))


def test_patterns_are_read(tmp_path):
    text = "pattern one { keep causal; }\npattern two { keep window(3, 0); }\n"
    (tmp_path / "file").write_text(text)
    assert weft.Pattern.parse(text, "two") == weft.Pattern.load(tmp_path / "file", "two")
    assert weft.Pattern.parse("pattern alone { keep causal; }").name == "alone"
    with pytest.raises(weft.PatternError, match="name one of them"):
        weft.Pattern.parse(text)
    x = np.ones((1, 9, 1, 8), np.float32)
    assert weft.attention(x, x, x, weft.Pattern.parse(text, "two"), lengths=[7]).shape == x.shape


def test_mistakes_are_told():
    with pytest.raises(TypeError, match="write `&`, `|`, `~`"):
        weft.causal and weft.window(3)
    with pytest.raises(TypeError, match="`&` of a set and a bool; expected another set"):
        weft.causal & True
    with pytest.raises(TypeError, match="a branch is a str"):
        weft.pattern("causal")
    with pytest.raises(weft.ArgumentError, match="combine is 'add'"):
        weft.pattern(weft.causal, combine="add")
    with pytest.raises(weft.ArgumentError, match="two inputs are called 'x'"):
        weft.document("x") & weft.lengths("x")
    with pytest.raises(weft.ArgumentError, match="f64; expected f32, i32 or u8"):
        weft.input("x", "f64", "batch")
