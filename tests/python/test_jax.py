"""JAX's arrays on CPUs, read in place; results are JAX's. Skipped where there is no JAX."""

import numpy as np
import pytest

import weft

jax = pytest.importorskip("jax")


@pytest.fixture
def arrays(tensors):
    found = tensors(n_q=20, kv_heads=2)
    return found, tuple(jax.numpy.asarray(x) for x in found)


def test_forward(arrays):
    given, (q, k, v) = arrays
    want, want_lse = weft.attention(*given, "causal", return_lse=True)
    out, lse = weft.attention(q, k, v, "causal", return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(lse, want_lse)
    again = weft.attention(out, k, v, "causal")  # results are arguments
    np.testing.assert_array_equal(again, weft.attention(want, *given[1:], "causal"))
    place = weft._weft.View(out, "out").address
    assert place % 64 == 0 and np.asarray(out).ctypes.data == place, "nothing was copied"


def test_halves(arrays):
    _, given = arrays
    out = weft.attention(*(x.astype(jax.numpy.bfloat16) for x in given), "causal")
    assert out.dtype == jax.numpy.bfloat16
    np.testing.assert_allclose(out.astype("float32"), weft.attention(*given, "causal"), atol=0.05)


def test_gradients(arrays):
    given, traced = arrays
    d_out = np.ones_like(given[0])
    want = weft.vjp(*given, "causal")[1](d_out)
    found = weft.vjp(*traced, "causal")[1](jax.numpy.asarray(d_out))
    for one, other in zip(found[:3], want[:3]):
        assert isinstance(one, jax.Array)
        np.testing.assert_array_equal(one, other)


def test_what_cannot_be(arrays):
    _, (q, k, v) = arrays
    with pytest.raises(weft.ArgumentError, match="out is .*read-only|out is of JAX, whose arrays do not change"):
        weft.attention(q, k, v, out=q)
    with pytest.raises(TypeError, match="q is of type .*Tracer; expected an array"):
        jax.jit(lambda x: weft.attention(x, x, x))(q)
