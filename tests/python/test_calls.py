"""Which kernel a call takes: the one that was found last is not taken for a call that says something else."""

import os

import numpy as np
import pytest
from reference import attend, bound, positions

import weft

def masks(n):
    return positions(n, n)


def check(found, tensors, mask, **more):
    want, _ = attend(*tensors, [mask], **more)
    np.testing.assert_allclose(found, want, atol=bound(tensors[2], mask.shape[-1]))


def test_parameters_tell_calls_apart(tensors):
    given, (q, k) = tensors(n_q=20), masks(20)
    for width in (3, 5, 3):
        check(weft.attention(*given, "window", width=width), given, (k <= q) & (k > q - width))
    widths = [4, 8]
    for _ in range(2):
        found = weft.attention(*given, "longnet", segments=widths, rates=[1, 2])
        want = weft.attention(*given, "longnet", segments=list(widths), rates=[1, 2])
        np.testing.assert_array_equal(found, want)
        widths[1] = 16  # the caller's list is the caller's
    assert not np.array_equal(want, weft.attention(*given, "longnet", segments=[4, 8], rates=[1, 2]))


def test_true_is_not_one(tensors):
    given = tensors(n_q=20)
    text = "pattern p(far: int = 1) { keep window(far, 0); }"
    weft.attention(*given, text, far=1)
    with pytest.raises(weft.PatternError):
        weft.attention(*given, text, far=True)


def test_options_tell_calls_apart(tensors):
    given, (q, k) = tensors(n_q=20), masks(20)
    for scale in (None, 0.5, 1.0, None):
        check(weft.attention(*given, "causal", scale=scale), given, k <= q, scale=scale)
    ones = (*given[:2], np.ones_like(given[2]))
    for dropout in (0.0, 0.5, 0.0):
        sums = weft.attention(*ones, "causal", dropout=dropout, seed=3)
        assert (np.abs(sums - 1).max() > 0.1) == (dropout > 0)
    for lengths in (None, [20, 7], None, [5, 20]):
        found = weft.attention(*given, "causal", lengths=lengths)
        for b in range(2):
            n = 20 if lengths is None else lengths[b]
            one = tuple(x[b : b + 1, :n] for x in given)
            check(found[b : b + 1, :n], one, (k <= q)[:n, :n])


def test_dims_dtypes_and_engines_tell_calls_apart(tensors):
    for dim in (16, 8, 16):
        given = tensors(n_q=20, dim=dim)
        check(weft.attention(*given), given, np.ones((20, 20), bool))
    for dtype in (np.float16, np.float32, np.float16):
        assert weft.attention(*(x.astype(dtype) for x in given)).dtype == dtype
    q, k, v = given
    assert weft.attention(q, k, v[..., :4].copy()).shape[-1] == 4
    assert weft.attention(q, k, v).shape[-1] == 16
    engine = weft.Engine(no_cache=True)
    weft.attention(q, k, v, "causal", engine=engine)
    assert engine.cache_stats()["misses"] == 1, "the engine was asked, though another has the kernel"
    weft.attention(q, k, v, "causal", engine=engine)
    assert engine.cache_stats()["misses"] == 1


def test_a_file_that_changes_is_read_again(tensors, tmp_path):
    given, (q, k) = tensors(n_q=20), masks(20)
    path = tmp_path / "mine.weft"
    for width in (2, 6):
        path.write_text(f"pattern mine {{ keep window({width}, 0); }}")
        for name in (path, os.fspath(path)):
            check(weft.attention(*given, name), given, (k <= q) & (k >= q - width))


def test_patterns_by_identity_and_by_text(tensors):
    given, (q, k) = tensors(n_q=20), masks(20)
    for _ in range(2):
        for width in (2, 6):
            check(weft.attention(*given, weft.window(width, 0)), given, (k <= q) & (k >= q - width))
    kept = [weft.window(width, 0) for width in range(3)]
    for _ in range(2):
        for width, pattern in enumerate(kept):
            check(weft.attention(*given, pattern), given, (k <= q) & (k >= q - width))


def test_more_calls_than_are_remembered(tensors):
    given = tensors(batch=1, n_q=4, heads=1)
    want = weft.attention(*given, "causal")
    for _ in range(300):
        weft.attention(*given, weft.Pattern(weft.causal.__weft_source__()))
    np.testing.assert_array_equal(weft.attention(*given, "causal"), want)


def test_what_random_and_top_chose_is_told(tensors):
    q, k, v = tensors(n_q=96, n_k=96)
    kernel = weft.compile("pattern p { branch blocks(16, top(2, by: pooled)); keep causal; }", dim=q.shape[3], dtype="f32")
    (one,) = kernel.lists(q, k, v)
    assert one.block == 16 and one.first_row == 0 and one.set.startswith("blocks(16, top(2")
    assert one.blocks.shape == (q.shape[0], q.shape[2], 6, 2) and one.blocks.dtype == np.int32
    for row in range(6):
        chosen = one.blocks[:, :, row]
        real = chosen[chosen < 2**31 - 1]
        assert (real >= 0).all() and (real <= row).all()
    # A pattern of exactly these pairs has the same result.
    head = one.blocks[0, 0]
    table = np.zeros((6, 6), np.uint8)
    for row in range(6):
        table[row, [b for b in head[row] if b < 6]] = 1
    chosen = weft.input("chosen", "u8", "queries", "keys")
    same = weft.pattern(weft.where(lambda q, k: chosen[q, k] != 0), keep=weft.causal)
    full = np.kron(table, np.ones((16, 16), np.uint8))
    want = weft.attention(q[:1, :, :1], k[:1, :, :1], v[:1, :, :1], same, inputs={"chosen": full})
    np.testing.assert_allclose(kernel(q, k, v)[:1, :, :1], want, rtol=1e-5, atol=1e-5)
    assert weft.compile("causal", dim=16, dtype="f32").lists(q[..., :16], k[..., :16], v[..., :16]) == []


def test_a_seed_may_stand_in_an_array(tensors):
    q, k, v = tensors()
    kernel = weft.compile("pattern p { keep causal; dropout 0.4; }", dim=q.shape[3], dtype="f32")
    want = kernel(q, k, v, seed=2**40 + 9)
    seed = np.array([2**40 + 9])
    np.testing.assert_array_equal(kernel(q, k, v, seed=seed), want)
    np.testing.assert_array_equal(kernel(q, k, v, seed=seed[0]), want)  # a number of NumPy's is a number
    seed[0] = 8
    np.testing.assert_array_equal(kernel(q, k, v, seed=seed), kernel(q, k, v, seed=8))
    out, pullback = kernel.vjp(q, k, v, seed=seed)
    np.testing.assert_array_equal(pullback(out).q, kernel.vjp(q, k, v, seed=8)[1](out).q)
    for wrong in (np.array([1, 2]), np.array([1], np.int32), np.array(1.5)):
        with pytest.raises(weft.ArgumentError, match="expected an int, or an array of one i64"):
            kernel(q, k, v, seed=wrong)
    with pytest.raises(TypeError, match="seed is a str; expected an int"):
        kernel(q, k, v, seed="7")
