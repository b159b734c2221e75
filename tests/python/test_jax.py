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


# ---- inside of jit: weft.jax ----


def near(found, want):
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


@pytest.fixture(params=["xla", "python"])
def attention(request, monkeypatch):
    """By XLA, and by a call of Python's where XLA cannot."""
    import weft.jax
    from weft._jax import native

    if request.param == "python":
        monkeypatch.setattr(native, "why_not", lambda: "asked for")
    elif native.why_not():
        pytest.skip(native.why_not())
    jax.clear_caches()
    yield weft.jax.attention
    jax.clear_caches()


def test_jit_has_the_bits_of_a_call(arrays, attention):
    given, traced = arrays
    for layout in ("bnhd", "bhnd"):
        turned = [x if layout == "bnhd" else x.swapaxes(1, 2) for x in given]
        want, want_lse = weft.attention(*(np.ascontiguousarray(x) for x in turned), "causal", layout=layout, return_lse=True)
        call = jax.jit(lambda q, k, v: attention(q, k, v, "causal", layout=layout, return_lse=True))
        out, lse = call(*(x if layout == "bnhd" else x.swapaxes(1, 2) for x in traced))
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(lse, want_lse)
    np.testing.assert_array_equal(attention(*traced, "causal"), weft.attention(*given, "causal"))  # not traced


def test_jit_of_what_a_call_can_say(arrays, attention):
    given, traced = arrays
    n = given[0].shape[1]
    options = dict(scale=0.3, offset=n, lengths=np.array([n - 3] * given[0].shape[0], np.int32))
    longer = [np.concatenate([x, x], 1) for x in given[1:]]
    want = weft.attention(given[0], *longer, "window", width=5, **options)
    found = jax.jit(lambda q, k, v: attention(q, k, v, "window", width=5, **options))(traced[0], *longer)
    np.testing.assert_array_equal(found, want)


def loss_of(function, *arrays):
    out, lse = function(*arrays)
    return (out * out).sum() + (jax.numpy.sin(lse)).sum()


def test_gradients_of_traced_calls(arrays, attention):
    given, traced = arrays
    bias = np.random.default_rng(3).standard_normal((20, 20)).astype(np.float32)
    table = weft.input("bias", "f32", "queries", "keys")
    pattern = weft.pattern(keep=weft.causal, score=lambda s, q, k: s + table[q, k])
    call = lambda q, k, v, bias: attention(q, k, v, pattern, inputs={"bias": bias}, return_lse=True)  # noqa: E731
    found = jax.jit(jax.grad(lambda *x: loss_of(call, *x), argnums=(0, 1, 2, 3)))(*traced, bias)
    out, lse = weft.attention(*given, pattern, inputs={"bias": bias}, return_lse=True)
    _, pullback = weft.vjp(*given, pattern, inputs={"bias": bias})
    want = pullback(2 * out, np.cos(lse))
    for one, other in zip(found, (*want[:3], want.inputs["bias"])):
        near(one, other)


@pytest.mark.parametrize("combine, weights", [("sum", ""), ("joint", "weights sigmoid;")])
def test_patterns_without_an_lse_of_rows(arrays, attention, combine, weights):
    given, traced = arrays
    text = f"pattern p {{ branch window(3, 0); branch dilated(segment: 10, rate: 2); keep causal; combine {combine}; {weights} }}"
    found = jax.jit(jax.grad(lambda *x: (attention(*x, text) ** 2).sum(), argnums=(0, 1, 2)))(*traced)
    out, pullback = weft.vjp(*given, text)
    for one, other in zip(found, pullback(2 * out)[:3]):
        near(one, other)
    with pytest.raises(weft.ArgumentError, match="no LSE of the rows"):
        attention(*traced, text, return_lse=True)


def test_vmap_is_a_batch(arrays, attention):
    given, traced = arrays
    stacked = [jax.numpy.stack([x, 2 * x, -x]) for x in traced]
    found, lse = jax.jit(jax.vmap(lambda *x: attention(*x, "causal", return_lse=True)))(*stacked)
    for i, factor in enumerate((1, 2, -1)):
        want, want_lse = weft.attention(*(factor * x for x in given), "causal", return_lse=True)
        np.testing.assert_array_equal(found[i], want)
        np.testing.assert_array_equal(lse[i], want_lse)
    of_one = jax.vmap(lambda q: attention(q, *traced[1:], "causal"))(stacked[0])
    np.testing.assert_array_equal(of_one[2], weft.attention(-given[0], *given[1:], "causal"))
    gradient = jax.vmap(jax.grad(lambda *x: (attention(*x, "causal") ** 2).sum()))(*stacked)
    near(gradient[1], weft.vjp(*(2 * x for x in given), "causal")[1](2 * weft.attention(*(2 * x for x in given), "causal")).q)
    ids = np.array([[0] * 12 + [1] * 8] * given[0].shape[0], np.int32)
    documents = weft.pattern(keep=weft.document(weft.input("ids", "i32", "batch", "tokens")))
    found = jax.vmap(lambda *x: attention(*x, documents, inputs={"ids": ids}))(*stacked)
    np.testing.assert_array_equal(found[1], weft.attention(*(2 * x for x in given), documents, inputs={"ids": ids}))


def test_dropout_is_drawn_by_the_seed(arrays, attention):
    given, traced = arrays
    call = jax.jit(lambda q, k, v, seed: attention(q, k, v, "causal", dropout=0.3, seed=seed))
    np.testing.assert_array_equal(call(*traced, jax.numpy.uint32(7)), weft.attention(*given, "causal", dropout=0.3, seed=7))
    far = 2**40 + 3
    np.testing.assert_array_equal(attention(*traced, dropout=0.3, seed=far), weft.attention(*given, dropout=0.3, seed=far))
    seed = jax.random.bits(jax.random.key(1))
    np.testing.assert_array_equal(call(*traced, seed), weft.attention(*given, "causal", dropout=0.3, seed=int(seed)))
    found = jax.grad(lambda q, s: (attention(q, *traced[1:], "causal", dropout=0.3, seed=s) ** 2).sum())(traced[0], seed)
    out, pullback = weft.vjp(*given, "causal", dropout=0.3, seed=int(seed))
    near(found, pullback(2 * out).q)
    with pytest.raises(weft.ArgumentError, match="JAX draws nothing by itself"):
        attention(*traced, dropout=0.3)


def test_concrete_arrays_that_are_xla_s(arrays, attention):
    """The way that arrays on a GPU take, here on the host."""
    import weft.jax

    given, traced = arrays
    kernel = weft.compile("causal", dim=given[0].shape[3], dtype="f32")
    out, lse = kernel.launch("xla", *traced, False, None, None, None, None, None, True, None, 0, None)
    want, want_lse = weft.attention(*given, "causal", return_lse=True)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(lse, want_lse)
    d_out = np.ones_like(want)
    out, pullback = weft.jax.vjp(kernel, *traced, False, None, None, 0, 0)
    for found, of in zip((pullback(d_out), pullback(d_out, want_lse)), (None, want_lse)):
        for one, other in zip(found[:3], weft.vjp(*given, "causal")[1](d_out, of)[:3]):
            near(one, other)
    with pytest.raises(weft.ArgumentError, match="out is given, and arrays of JAX on a GPU are XLA's"):
        kernel.launch("xla", *traced, False, None, None, None, None, None, False, out, 0, None)
    with pytest.raises(weft.ArgumentError, match="one for all batch entries"):
        kernel.launch("xla", *traced, False, None, [1, 2], None, None, None, False, None, 0, None)


def test_halves_and_remat(arrays, attention):
    given, traced = arrays
    halves = [x.astype(jax.numpy.bfloat16) for x in traced]
    call = jax.checkpoint(lambda *x: attention(*x, "causal").astype("float32").sum())
    found = jax.jit(jax.grad(call))(*halves)
    assert found.dtype == jax.numpy.bfloat16
    _, pullback = weft.vjp(*given, "causal")
    np.testing.assert_allclose(found.astype("float32"), pullback(np.ones_like(given[0])).q, atol=0.1)


def test_a_step_of_training_in_one_jit(arrays, attention):
    _, (q, k, v) = arrays

    @jax.jit
    def step(weight):
        return jax.value_and_grad(lambda w: ((attention(q @ w, k, v, "causal") - v.repeat(q.shape[2] // v.shape[2], 2)) ** 2).mean())(weight)

    weight, losses = jax.numpy.eye(q.shape[3]), []
    for _ in range(5):
        loss, gradient = step(weight)
        weight = weight - 0.5 * gradient
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_what_traced_calls_refuse(arrays, attention):
    _, (q, k, v) = arrays
    for options, message in (
        (dict(k=k[0]), "k has 3 axes"),
        (dict(v=v.astype("float16")), "v is f16; expected f32, as q"),
        (dict(inputs={"ids": np.zeros(3, np.int32)}), "has no input 'ids'"),
        (dict(layout="nbhd"), "layout is 'nbhd'"),
        (dict(pattern="pattern p { input ids: i32[batch, tokens]; keep document(ids); }"), "the input 'ids' is missing"),
        (dict(q=q[:, :0]), "an axis has the extent 0"),
        (dict(dropout=0.1, seed=np.zeros(2, np.uint32)), "seed is uint32"),
    ):
        with pytest.raises(weft.ArgumentError, match=message):
            attention(**{**dict(q=q, k=k, v=v, pattern="causal"), **options})
    with pytest.raises(Exception, match="heads"):
        jax.jit(lambda: attention(q[:, :, :3], k, v, "causal"))().block_until_ready()


def test_a_program_without_its_kernel_says_so():
    import weft.jax
    from weft._jax import native

    if native.why_not():
        pytest.skip(native.why_not())
    x = jax.numpy.zeros((1, 4, 1, 16))
    types = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((1, 1, 4), jax.numpy.float32))
    call = jax.ffi.ffi_call(native.TARGET, types)
    with pytest.raises(Exception, match="was not made in this process"):
        jax.block_until_ready(call(x, x, x, kernel="nobody", backward=False, heads_first=False, has_offset=False,
                                   offset=np.int64(0), threads=np.int32(0)))  # fmt: skip


def test_without_a_compiler_calls_go_through_python(tmp_path):
    import os
    import subprocess
    import sys

    program = (
        "import jax, numpy as np, weft, weft.jax; from weft._jax import native\n"
        "x = np.ones((1, 8, 2, 16), np.float32)\n"
        "found = jax.jit(lambda x: weft.jax.attention(x, x, x, 'causal'))(x)\n"
        "np.testing.assert_array_equal(found, weft.attention(x, x, x, 'causal'))\n"
        "print(native.why_not())\n"
    )
    for variables, said in (({"CXX": "no-such-compiler"}, "no C++ compiler was found"), ({"WEFT_JAX": "python"}, "WEFT_JAX is python")):
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_the_library_is_kept_and_whole(tmp_path):
    import os
    import subprocess
    import sys

    from weft._jax import native

    if native.why_not():
        pytest.skip(native.why_not())
    program = "from weft._jax import native; assert native.why_not() == '', native.why_not()"
    times = set()
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "WEFT_CACHE_DIR": str(tmp_path)}, check=True)
        (made,) = (tmp_path / "jax").iterdir()
        assert made.suffix == ".so" and made.stat().st_size > 10_000
        times.add(made.stat().st_mtime_ns)
    assert len(times) == 1, "what is there is not made again"
