import numpy as np
import pytest

import weft


@pytest.fixture(scope="session", autouse=True)
def store(tmp_path_factory):
    """Kernels of the tests are made anew: not taken from, nor left in, the user's store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
        weft.default_engine()
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def tensors(rng):
    """tensors(batch, n_q, n_k, heads, kv_heads, dim) -> q, k, v in f32."""

    def make(batch=2, n_q=50, n_k=None, heads=4, kv_heads=None, dim=16, dtype=np.float32):
        n_k, kv_heads = n_k or n_q, kv_heads or heads
        shapes = ((batch, n_q, heads, dim), (batch, n_k, kv_heads, dim), (batch, n_k, kv_heads, dim))
        return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)

    return make
