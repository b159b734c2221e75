"""What attention() computes, against NumPy: the library's patterns, dtypes, layouts, lengths."""

import numpy as np
import pytest
from reference import attend, bound, by_groups, dilated, neighborhood, positions

import weft

N = 50
Q, K = positions(N, N)
HEADS = np.arange(4)[:, None, None]
CAUSAL = K <= Q


def longnet(segments, rates, combine="joint"):
    return [dilated(Q, K, w, r, HEADS % r) & CAUSAL for w, r in zip(segments, rates)], combine


def by_heads(segments, rates, last, every_query, combine):
    parts = range(len(segments))
    branches = [
        dilated(Q, K, segments[i], rates[i], i % rates[i], every_query) & by_groups(4, len(segments), i, last) for i in parts
    ]
    return branches, combine


def blocks(size, relation):
    return relation(Q // size, K // size)


SEGMENTS, RATES = [7, 16, 30], [1, 2, 3]

LIBRARY = {
    "dense": ({}, ([np.ones((N, N), bool)], "joint")),
    "causal": ({}, ([CAUSAL], "joint")),
    "window": ({"width": 9}, ([CAUSAL & (K > Q - 9)], "joint")),
    "sliding_window_both_sides": ({"reach": 5}, ([abs(Q - K) <= 5], "joint")),
    "chunked": ({"width": 12}, ([CAUSAL & (Q // 12 == K // 12)], "joint")),
    "dilated_window": ({"width": 12, "dilation": 3}, ([(abs(Q - K) <= 12) & ((Q - K) % 3 == 0)], "joint")),
    "streaming_llm": ({"sinks": 3, "recent": 6}, ([CAUSAL & ((K < 3) | (K >= Q - 6))], "joint")),
    "longnet": ({"segments": SEGMENTS, "rates": RATES}, longnet(SEGMENTS, RATES)),
    "dilated_attention": ({"segments": SEGMENTS, "rates": RATES}, by_heads(SEGMENTS, RATES, False, False, "mean")),
    "ring_dilated_attention": ({"segments": SEGMENTS, "rates": RATES}, by_heads(SEGMENTS, RATES, True, True, "sum")),
    "bigbird": (
        {"block": 8, "drawn": 0},
        ([blocks(8, lambda q, k: (q < 1) | (k < 1) | (abs(q - k) <= 1))], "joint"),
    ),
    "hierarchical": (
        {"block": 4, "near": 1, "far": 3},
        ([blocks(4, lambda q, k: (abs(q - k) <= 1) | ((q % 4 == 0) & (abs(q - k) <= 3)) | (q % 16 == 0))], "joint"),
    ),
    "natten_1d": ({"size": 7}, ([neighborhood(Q, K, N, 7)], "joint")),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library(tensors, name):
    params, (branches, combine) = LIBRARY[name]
    q, k, v = tensors(n_q=N)
    want, lse = attend(q, k, v, branches, combine)
    if combine == "joint":
        found, found_lse = weft.attention(q, k, v, name, return_lse=True, **params)
        finite = np.isfinite(lse)
        np.testing.assert_array_equal(np.isfinite(found_lse), finite)
        np.testing.assert_allclose(found_lse[finite], lse[finite], atol=4e-6 * 9)
    else:
        found = weft.attention(q, k, v, name, **params)
    np.testing.assert_allclose(found, want, atol=len(branches) * bound(v, N))


def test_the_comparison_sees_another_parameter(tensors):
    q, k, v = tensors(n_q=N)
    want, _ = attend(q, k, v, LIBRARY["window"][1][0])
    assert abs(weft.attention(q, k, v, "window", width=10) - want).max() > 100 * bound(v, N)


def test_fewer_queries_are_the_last_ones(tensors):
    q, k, v = tensors(n_q=5, n_k=23, heads=6, kv_heads=2)
    at_q, at_k = positions(5, 23)
    np.testing.assert_allclose(weft.attention(q, k, v, "causal"), attend(q, k, v, [at_k <= at_q])[0], atol=bound(v, 23))
    at_q, at_k = positions(5, 23, offset=2)
    found = weft.attention(q, k, v, "causal", offset=2)
    np.testing.assert_allclose(found, attend(q, k, v, [at_k <= at_q])[0], atol=bound(v, 23))
    each = weft.attention(q, k, v, "causal", offset=[2, 18])
    np.testing.assert_array_equal(each[0], found[0])
    np.testing.assert_array_equal(each[1], weft.attention(q, k, v, "causal")[1])


@pytest.mark.parametrize("dtype, word", [(np.float16, "f16"), (np.float64, "f32")])
def test_other_dtypes(tensors, dtype, word):
    q, k, v = tensors(n_q=N, dtype=dtype)
    found = weft.attention(q, k, v, "window", width=9)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, attend(q, k, v, LIBRARY["window"][1][0])[0], atol=bound(v, N, dtype=word))


def test_bfloat16_of_ml_dtypes(tensors):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = (x.astype(bfloat16) for x in tensors(n_q=N))
    found = weft.attention(q, k, v, "causal")
    assert found.dtype == bfloat16
    want, _ = attend(*(x.astype(np.float64) for x in (q, k, v)), [CAUSAL])
    np.testing.assert_allclose(found.astype(np.float64), want, atol=bound(v.astype(np.float64), N, dtype="bf16"))


def test_layouts_are_views(tensors):
    q, k, v = tensors(n_q=N, heads=6, kv_heads=3)
    want, want_lse = weft.attention(q, k, v, "causal", return_lse=True)
    found, lse = weft.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), "causal", layout="bhnd", return_lse=True)
    assert found.shape == (2, 6, N, 16)
    np.testing.assert_array_equal(found.swapaxes(1, 2), want)
    np.testing.assert_array_equal(lse, want_lse)


def test_strides_are_taken_and_last_ones_copied(tensors):
    q, k, v = tensors(n_q=N)
    wide = np.zeros((2, 2 * N, 4, 40), np.float32)
    wide[:, ::2, :, 8:24] = q
    want = weft.attention(q, k, v, "causal")
    np.testing.assert_array_equal(weft.attention(wide[:, ::2, :, 8:24], k, v, "causal"), want)
    turned = np.ascontiguousarray(q.swapaxes(2, 3)).swapaxes(2, 3)
    assert turned.strides[-1] != 4
    np.testing.assert_array_equal(weft.attention(turned, k, v, "causal"), want)
    q.setflags(write=False)
    np.testing.assert_array_equal(weft.attention(q, k, v, "causal"), want)


def test_out_is_written_in_place(tensors):
    q, k, v = tensors()
    place = np.full((2, 50, 4, 16), np.nan, np.float32)
    assert weft.attention(q, k, v, "causal", out=place) is place
    np.testing.assert_array_equal(place, weft.attention(q, k, v, "causal"))


def test_lengths_are_padding(tensors):
    q, k, v = tensors(n_q=30)
    mask = (K < np.array([30, 11])[:, None, None, None]) & (Q < np.array([30, 11])[:, None, None, None]) & CAUSAL
    mask = mask[:, :, :30, :30]
    k[1, 11:], v[1, 11:] = np.nan, np.nan
    for lengths in ([30, 11], np.array([30, 11], np.int32)):
        found = weft.attention(q, k, v, "causal", lengths=lengths)
        clean = [np.nan_to_num(x) for x in (q, k, v)]
        np.testing.assert_allclose(found, attend(*clean, [mask])[0], atol=bound(clean[2], 30))


def test_scale_and_dropout(tensors):
    q, k, v = tensors()
    want, _ = attend(q, k, v, [CAUSAL], scale=0.7)
    np.testing.assert_allclose(weft.attention(q, k, v, "causal", scale=0.7), want, atol=bound(v, N, 30))
    ones = np.ones_like(v)
    dropped = weft.attention(q, k, ones, "dense", dropout=0.25, seed=1)
    assert abs(dropped.mean() - 1) < 0.05 and dropped.std() > 0.01
    np.testing.assert_array_equal(dropped, weft.attention(q, k, ones, "dense", dropout=0.25, seed=1))
    assert (dropped != weft.attention(q, k, ones, "dense", dropout=0.25, seed=2)).any()
    assert (weft.attention(q, k, ones, "dense", dropout=0.25) != weft.attention(q, k, ones, "dense", dropout=0.25)).any()


def test_packed_sequences(tensors):
    q, k, v = tensors(batch=1, n_q=40)
    found = weft.attention(q, k, v, "causal", cu_q=[0, 15, 40], cu_k=[0, 15, 40])
    document = np.repeat([0, 1], [15, 25])
    mask = CAUSAL[:40, :40] & (document[:, None] == document[None, :])
    np.testing.assert_allclose(found, attend(q, k, v, [mask])[0], atol=bound(v, 40))


def test_no_borders_are_not_one_sequence(tensors):
    q, k, v = tensors(batch=1, n_q=40)
    with pytest.raises(weft.ArgumentError, match="cu_q has no entries; one sequence has two"):
        weft.attention(q, k, v, "causal", cu_q=[], cu_k=[])


def test_borders_that_kernels_read(tensors):
    q, k, v = tensors(batch=1, n_q=40)
    want = weft.attention(q, k, v, "causal", cu_q=[0, 15, 40], cu_k=[0, 15, 40])
    cu = np.array([0, 15, 40], np.int32)
    np.testing.assert_array_equal(weft.attention(q, k, v, "causal", cu_q=cu, cu_k=cu, max_q=32, max_k=32), want)
    kernel = weft.compile("causal", dim=q.shape[3], dtype="f32")
    np.testing.assert_array_equal(kernel(q, k, v, cu_q=cu, cu_k=cu, max_q=25, max_k=40), want)
    with pytest.raises(weft.ArgumentError, match="sequence 1 has 25 queries; sizes_at.most_q is 24"):
        kernel(q, k, v, cu_q=cu, cu_k=cu, max_q=24, max_k=40)
    with pytest.raises(weft.ArgumentError, match="max_q and max_k go together"):
        kernel(q, k, v, cu_q=cu, cu_k=cu, max_q=24)
    with pytest.raises(weft.ArgumentError, match=r"cu_k is i64\[3\]; with max_q and max_k expected i32"):
        kernel(q, k, v, cu_q=cu, cu_k=cu.astype(np.int64), max_q=24, max_k=40)


def test_inputs_and_scores(tensors, rng):
    q, k, v = tensors(n_q=N)
    marked = (np.arange(N) % 13 == 0).astype(np.uint8)
    mask = (abs(Q - K) <= 4) | (marked[Q] != 0) | (marked[K] != 0)
    for given in (marked, marked.astype(bool)):
        found = weft.attention(q, k, v, "longformer", inputs={"marked": given}, reach=4)
        np.testing.assert_allclose(found, attend(q, k, v, [mask])[0], atol=bound(v, N))
    bias = rng.standard_normal((4, 2 * N + 1)).astype(np.float32)
    text = f"pattern p {{ input bias: f32[heads, {2 * N + 1}]; keep causal; score softcap(s, 3) + bias[h, q - k + {N}]; }}"
    want, _ = attend(q, k, v, [CAUSAL], score=lambda s: 3 * np.tanh(s / 3) + bias[np.arange(4)[:, None, None], Q - K + N])
    np.testing.assert_allclose(weft.attention(q, k, v, text, inputs={"bias": bias}), want, atol=bound(v, N))


def test_sinks_and_sigmoid(tensors, rng):
    q, k, v = tensors(n_q=N)
    sinks = rng.standard_normal(4).astype(np.float32)
    want, lse = attend(q, k, v, [CAUSAL], sink=sinks[:, None, None])
    found, found_lse = weft.attention(q, k, v, "gpt_oss_full", inputs={"sinks": sinks}, return_lse=True)
    np.testing.assert_allclose(found, want, atol=bound(v, N))
    np.testing.assert_allclose(found_lse, lse, atol=1e-5)


def test_nothing_is_an_answer():
    shape = lambda batch, n, heads: np.zeros((batch, n, heads, 16), np.float32)  # noqa: E731
    for q, k in ((shape(0, 9, 4), shape(0, 9, 4)), (shape(2, 0, 4), shape(2, 9, 4)), (shape(2, 9, 0), shape(2, 9, 0))):
        assert weft.attention(q, k, k, "causal").shape == q.shape
    out, lse = weft.attention(shape(2, 9, 4), shape(2, 0, 4), shape(2, 0, 4), "dense", return_lse=True)
    assert (out == 0).all() and (lse == -np.inf).all()


def test_files_are_patterns(tensors, tmp_path):
    path = tmp_path / "mine.weft"
    path.write_text("pattern near(reach: int = 3) { keep window(reach, 0); }\npattern far { keep causal; }\n")
    q, k, v = tensors(n_q=N)
    kernel = weft.compile(path, pattern="near", dim=16, dtype="float32", reach=8)
    np.testing.assert_array_equal(kernel(q, k, v), weft.attention(q, k, v, "window", width=9))
    kernel = weft.compile(str(path), pattern="far", dim=16, dtype=np.dtype("float32"))
    np.testing.assert_array_equal(kernel(q, k, v), weft.attention(q, k, v, "causal"))
    assert "window(8, 0)" in weft.compile(path, pattern="near", dim=16, dtype=np.float32, reach=8).text


def test_kernels_show_every_stage():
    kernel = weft.compile("longnet", dim=16, dtype="f32", segments=[8, 16], rates=[1, 2])
    assert kernel.target.startswith("cpu:") and kernel.origin in ("memory", "disk", "compiled")
    assert "dilated" in kernel.text and "phase" in kernel.plan and "define" in kernel.source
    assert kernel.workspace(1, 64, 64, 4, 4) >= 0 and kernel.compile_ms >= 0
    again = weft.compile("longnet", dim=16, dtype="f32", segments=[8, 16], rates=[1, 2])
    assert again.origin == "memory" and again.compile_ms == 0
