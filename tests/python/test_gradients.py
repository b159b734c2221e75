"""vjp() against NumPy and, where a score is rewritten, against finite differences in f64."""

import numpy as np
import pytest
from reference import gradients
from test_forward import CAUSAL, LIBRARY, N

import weft


@pytest.mark.parametrize("name", ["dense", "causal", "window", "longnet", "dilated_attention", "ring_dilated_attention"])
def test_library(tensors, rng, name):
    params, (branches, combine) = LIBRARY[name]
    q, k, v = tensors(n_q=N, heads=4, kv_heads=2)
    out, pullback = weft.vjp(q, k, v, name, **params)
    np.testing.assert_array_equal(out, weft.attention(q, k, v, name, **params))
    d_out = rng.standard_normal(out.shape).astype(np.float32)
    found = pullback(d_out)
    for one, want in zip((found.q, found.k, found.v), gradients(q, k, v, branches, d_out, combine)):
        assert one.dtype == np.float32 and one.shape == want.shape
        np.testing.assert_allclose(one, want, atol=2e-5 * abs(want).max() * len(branches))


def test_layouts(tensors, rng):
    q, k, v = tensors(n_q=N)
    d_out = rng.standard_normal(q.shape).astype(np.float32)
    want = weft.vjp(q, k, v, "causal")[1](d_out)
    _, pullback = weft.vjp(*(x.swapaxes(1, 2) for x in (q, k, v)), "causal", layout="bhnd")
    found = pullback(d_out.swapaxes(1, 2))
    for one, other in zip(found[:3], want[:3]):
        np.testing.assert_array_equal(one.swapaxes(1, 2), other)


@pytest.mark.parametrize("target", ["cpu", "emulate:sm_61"])
@pytest.mark.parametrize("pattern", ["causal", "pattern p { input doc: i32[batch, 26]; keep causal & document(doc); }"])
def test_borders_that_kernels_read(tensors, rng, target, pattern):
    q, k, v = tensors(batch=1, n_q=N)
    d_out = rng.standard_normal(q.shape).astype(np.float32)
    cu = np.array([3, 15, 35], np.int32)  # some tokens are nobody's
    inputs = {"doc": np.repeat([[0, 1], [0, 2]], 13, axis=1).astype(np.int32)} if "input" in pattern else None
    most = {"max_q": 26, "max_k": 26}
    if inputs is not None:  # sequences that the host knows have inputs as long as the longest
        cu = np.array([3, 15, 41], np.int32)
    want = weft.vjp(q, k, v, pattern, inputs=inputs, cu_q=cu.tolist(), cu_k=cu.tolist(), target=target)[1](d_out)
    found = weft.vjp(q, k, v, pattern, inputs=inputs, cu_q=cu, cu_k=cu, **most, target=target)[1](d_out)
    for one, other in zip(found[:3], want[:3]):
        np.testing.assert_array_equal(one, other)
        assert not one[0, :3].any() and not one[0, cu[2] :].any() and one[0, 3 : cu[2]].any()


TEXT = """pattern biased {
  input bias: f32[heads, 64];
  input gate: u8[tokens];
  keep causal & where(gate[k] != 0 or k == q);
  score softcap(s, 2) + bias[h, q - k];
}"""


def test_scores_and_inputs_by_finite_differences(rng):
    shape = (1, 12, 2, 8)
    q, k, v = (rng.standard_normal(shape) for _ in range(3))
    inputs = {"bias": rng.standard_normal((2, 64)).astype(np.float32), "gate": (np.arange(12) % 3 > 0).astype(np.uint8)}
    d_out, d_lse = rng.standard_normal(shape), rng.standard_normal((1, 2, 12)).astype(np.float32)

    def total(q, k, v, bias):
        out, lse = weft.attention(q, k, v, TEXT, inputs={**inputs, "bias": bias}, return_lse=True)
        return float((out * d_out).sum() + (lse.astype(np.float64) * d_lse).sum())

    found = weft.vjp(q, k, v, TEXT, inputs=inputs)[1](d_out, d_lse)
    assert set(found.inputs) == {"bias"}
    arguments = {"q": q, "k": k, "v": v, "bias": inputs["bias"]}
    # The LSE is written in f32, so the step is coarse, and so is the comparison.
    for name, gradient in zip(arguments, (found.q, found.k, found.v, found.inputs["bias"])):
        step = rng.standard_normal(arguments[name].shape).astype(arguments[name].dtype) * arguments[name].dtype.type(1e-3)
        ahead, behind = (total(**{**arguments, name: arguments[name] + sign * step}) for sign in (1, -1))
        np.testing.assert_allclose((ahead - behind) / 2, (gradient * step).sum(), rtol=5e-3, atol=1e-5)


def test_dropout_is_the_same_in_both_directions(tensors):
    q, k, v = tensors()
    out, pullback = weft.vjp(q, k, v, "causal", dropout=0.5)
    d_v = pullback(np.ones_like(out)).v
    np.testing.assert_allclose((d_v * v).sum(), out.sum(), rtol=1e-4)  # O is linear in V


def test_only_what_is_asked_is_kept(tensors):
    q, k, v = tensors()
    out, pullback = weft.vjp(q, k, v, "sigmoid_attention")
    found = pullback(np.ones_like(out))
    np.testing.assert_allclose((found.v * v).sum(), out.sum(), rtol=1e-4)
    with pytest.raises(weft.ArgumentError, match="d_lse is given, and 'weights sigmoid' has no LSE"):
        pullback(np.ones_like(out), np.ones((2, 4, 50), np.float32))


def test_nothing_has_no_gradient():
    q, k = np.zeros((2, 0, 4, 16), np.float32), np.ones((2, 9, 4, 16), np.float32)
    found = weft.vjp(q, k, k, "dense")[1](q)
    assert found.q.shape == q.shape and (found.k == 0).all() and (found.v == 0).all()


def test_what_does_not_fit_is_refused(tensors):
    q, k, v = tensors()
    out, pullback = weft.vjp(q, k, v, "causal")
    with pytest.raises(weft.ArgumentError, match=r"d_out has the shape \[2, 49, 4, 16\]; expected \[2, 50, 4, 16\]"):
        pullback(out[:, 1:])
    with pytest.raises(weft.ArgumentError, match="d_out is f64"):
        pullback(out.astype(np.float64))
    assert CAUSAL.any()
