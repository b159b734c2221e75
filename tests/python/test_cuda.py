"""Tensors on a GPU: PyTorch's, CuPy's and JAX's, their streams, graphs and compilers. Skipped where PyTorch sees none."""

import os
import subprocess
import sys

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU here", allow_module_level=True)

import weft.torch  # noqa: E402

DEVICE = torch.device("cuda", 0)
PATTERNS = {
    "causal": (dict(pattern="causal"), lambda q, k: q >= k),
    "window": (dict(pattern="window", width=70), lambda q, k: (q >= k) & (q - k < 70)),
    "strided": (dict(pattern=weft.pattern(weft.where(lambda q, k: (q - k) % 5 == 0), keep=weft.causal)), lambda q, k: (q >= k) & ((q - k) % 5 == 0)),
}
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tensors(n=300, dtype=torch.float32, heads=(4, 2, 2), dim=64, batch=2):
    made = torch.Generator("cuda").manual_seed(n)
    return tuple(torch.randn(batch, n, h, dim, device=DEVICE, generator=made).to(dtype).requires_grad_() for h in heads)


def plainly(q, k, v, kept, d_out=None):
    """O, and dQ, dK, dV of sum(d_out * O), in f64 by PyTorch."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    s = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(group, 2)) / q.shape[3] ** 0.5
    at = torch.arange(q.shape[1], device=DEVICE)
    p = s.masked_fill(~kept(at[:, None], at[None, :]), -torch.inf).softmax(-1)
    out = torch.einsum("bhqk,bkhd->bqhd", p, v.repeat_interleave(group, 2))
    return out.detach(), None if d_out is None else torch.autograd.grad(out, (q, k, v), d_out.double())


def near(found, want, dtype):
    """Relative to the largest: what halves are rounded to."""
    error = (found.double() - want.double()).abs().max() / want.double().abs().max()
    assert error <= TOLERANCE[dtype], f"{error:.2e}"


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_call_and_its_gradients(name, dtype):
    options, kept = PATTERNS[name]
    given = tensors(dtype=dtype)
    out = weft.attention(*given, **options)
    d_out = torch.randn_like(out)
    want, gradients = plainly(*given, kept, d_out)
    assert out.device == DEVICE and out.dtype == dtype
    near(out, want, dtype)
    for one, other in zip(torch.autograd.grad(out, given, d_out), gradients):
        near(one, other, dtype)


def test_work_is_queued_on_the_stream_of_the_caller():
    q, k, v = (x.detach() for x in tensors(2000))
    want = weft.attention(q, k, v, "causal")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # what comes after is late, on this stream alone
        late = q * 1.0
        found = weft.attention(late, k, v, "causal")
        assert not side.query(), "nothing waited for the GPU"
        kept = found.clone()
    side.synchronize()
    assert torch.equal(kept, want)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_graphs_replay_both_passes():
    q, k, v = tensors(500, torch.float16)
    static = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    d_out = torch.randn_like(static[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            torch.autograd.grad(weft.attention(*static, "window", width=100), static, d_out)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = weft.attention(*static, "window", width=100)
        gradients = torch.autograd.grad(out, static, d_out)
    for seed in range(3):
        with torch.no_grad():
            for at, x in zip(static, tensors(500 + seed, torch.float16)):
                at.copy_(x[:, :500])
        graph.replay()
        torch.cuda.synchronize()
        again = [x.detach().clone().requires_grad_() for x in static]
        want = weft.attention(*again, "window", width=100)
        assert torch.equal(out, want)
        for one, other in zip(gradients, torch.autograd.grad(want, again, d_out)):
            assert torch.equal(one, other)


def test_a_replayed_graph_draws_dropout_anew():
    q, k, v = (x.detach() for x in tensors(300))
    seed = torch.tensor(5, device=DEVICE)
    call = lambda: weft.attention(q, k, v, "causal", dropout=0.4, seed=seed)  # noqa: E731
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    for value in (5, 6, 2**40 + 1):
        seed.fill_(value)
        graph.replay()
        assert torch.equal(out, weft.attention(q, k, v, "causal", dropout=0.4, seed=value))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_by_inductor(mode):
    given = tensors(256, torch.bfloat16)
    step = lambda q, k, v: weft.attention(q * 2, k, v, "causal").float().square().mean()  # noqa: E731
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    for _ in range(4):  # reduce-overhead records a graph at the second or third
        found = torch.autograd.grad(compiled(*given), given)
        found = [x.clone() for x in found]
    want = torch.autograd.grad(step(*given), given)
    for one, other in zip(found, want):
        near(one, other, torch.bfloat16)


def test_lengths_offsets_and_packed_sequences_on_the_gpu():
    q, k, v = (x.detach() for x in tensors(200))
    lengths = torch.tensor([120, 200], dtype=torch.int32, device=DEVICE)
    found = weft.attention(q, k, v, "causal", lengths=lengths)
    near(found[:1, :120], weft.attention(q[:1, :120], k[:1, :120], v[:1, :120], "causal"), torch.float32)
    borders = torch.tensor([0, 70, 71, 200], dtype=torch.int32, device=DEVICE)
    packed = weft.attention(q[:1], k[:1], v[:1], "causal", cu_q=borders, cu_k=borders)
    for first, last in ((0, 70), (70, 71), (71, 200)):
        part = [x[:1, first:last] for x in (q, k, v)]
        near(packed[:, first:last], weft.attention(*part, "causal"), torch.float32)


def test_a_step_of_training_with_a_module():
    torch.manual_seed(1)
    layer = weft.torch.MultiheadDilatedAttention(128, 4, [1, 2], [64, 128]).to(DEVICE)
    other = weft.torch.MultiheadDilatedAttention(128, 4, [1, 2], [64, 128])
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 256, 128)
    y = x.to(DEVICE)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        halves = layer(y, y, y)[0]
    assert halves.dtype == torch.bfloat16 and halves.isfinite().all()
    found = layer(y, y, y)[0]
    found.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    near(halves, found.detach(), torch.bfloat16)


def test_arrays_of_two_devices_are_refused():
    q, k, v = (x.detach() for x in tensors(20))
    with pytest.raises(weft.ArgumentError, match="k is on cpu; expected cuda:0, as q"):
        weft.attention(q, k.cpu(), v)


def test_memory_is_given_back():
    given = tensors(2048, torch.float16)
    step = lambda: torch.autograd.grad(weft.attention(*given, "causal"), given, torch.ones_like(given[0]))  # noqa: E731
    step()
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(50):
        step()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] >= before - 2**20


def test_arrays_of_cupy():
    cupy = pytest.importorskip("cupy")
    given = [x.detach() for x in tensors(100)]
    q, k, v = (cupy.from_dlpack(x) for x in given)
    out, lse = weft.attention(q, k, v, "causal", return_lse=True)
    assert isinstance(out, cupy.ndarray) and isinstance(lse, cupy.ndarray)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        again = weft.attention(q, k, v, "causal")
        stream.synchronize()
    want = weft.attention(*given, "causal").cpu().numpy()
    np.testing.assert_array_equal(cupy.asnumpy(out), want)
    np.testing.assert_array_equal(cupy.asnumpy(again), want)


def in_a_process(program, **variables):
    """Runs it apart: JAX keeps its memory, and ranks are processes."""
    return subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **variables}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip


def finished(*running):
    said = [one.communicate(timeout=240)[0] for one in running]
    assert all(one.returncode == 0 for one in running), "\n".join(said)
    return said


JAX = """
import jax, numpy as np, weft, weft.jax
from weft._jax import native
if jax.default_backend() != "gpu":
    print("no GPU of JAX"); raise SystemExit
keys = jax.random.split(jax.random.key(0), 3)
q, k, v = (jax.random.normal(key, (2, 300, 4, 64)) for key in keys)
def plainly(q, k, v):
    s = jax.numpy.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") / 8
    at = jax.numpy.arange(300)
    p = jax.nn.softmax(jax.numpy.where(at[:, None] >= at, s, -jax.numpy.inf))
    return jax.numpy.einsum("bhqk,bkhd->bqhd", p, v, precision="highest")
near = lambda one, other: np.testing.assert_allclose(one, other, atol=2e-4, rtol=2e-4)
near(weft.attention(q, k, v, "causal"), plainly(q, k, v))
call = lambda q, k, v: weft.jax.attention(q * 1, k * 1, v * 1, "causal")
near(jax.jit(call)(q, k, v), plainly(q, k, v))
loss = lambda f: jax.jit(jax.grad(lambda *x: jax.numpy.sin(f(*x)).sum(), argnums=(0, 1, 2)))
for one, other in zip(loss(call)(q, k, v), loss(plainly)(q, k, v)):
    near(one, other)
drop = jax.jit(lambda seed: weft.jax.attention(q, k, v, "causal", dropout=0.3, seed=seed))
for seed in (7, 8):
    near(drop(jax.numpy.uint32(seed)), weft.attention(q, k, v, "causal", dropout=0.3, seed=seed))
print("by XLA" if not native.why_not() else native.why_not())
"""


@pytest.mark.parametrize("way", ["xla", "python"])
def test_arrays_of_jax(way):
    pytest.importorskip("jax")
    variables = {"WEFT_JAX": "python"} if way == "python" else {}
    (said,) = finished(in_a_process(JAX, XLA_PYTHON_CLIENT_PREALLOCATE="false", **variables))
    if "no GPU of JAX" in said:
        pytest.skip("JAX sees no GPU here")
    assert "by XLA" in said or way == "python" and "WEFT_JAX is python" in said


RANK = """
import sys, torch, weft, weft.torch
rank, ranks, folder, nccl = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "nccl"
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
made = torch.Generator("cuda").manual_seed(1)
q, k, v = (torch.randn(1, 1024, 4, 64, device="cuda", generator=made).half().requires_grad_() for _ in range(3))
ring = weft.torch.ring(nccl=0 if nccl else None)
for pattern in ("longnet", "causal"):
    want = weft.attention(q, k, v, pattern)
    gradients = torch.autograd.grad(want.float().sin().sum(), (q, k, v))
    plan = ring.plan(pattern, tokens=1024, heads=4, dim=64, dtype="f16", gradient=True, target="cuda:0")
    own = [plan.own(x.detach()).clone().requires_grad_() for x in (q, k, v)]
    out = plan(*own)
    assert torch.equal(out, plan.own(want)), pattern
    for one, other in zip(torch.autograd.grad(out.float().sin().sum(), own), gradients):
        assert torch.equal(one, plan.own(other)), pattern
print("done")
"""


@pytest.mark.parametrize("way", ["host", "nccl"])
def test_a_ring_of_processes(way, tmp_path):
    """Two ranks on one GPU, which NCCL takes for GPUs of two machines where it is told that they are."""
    program = f"import sys; sys.argv = ['rank', *sys.argv[1:]]\n{RANK}"
    ranks = [
        subprocess.Popen([sys.executable, "-c", program, str(rank), "2", str(tmp_path), way], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, env={**os.environ, "NCCL_HOSTID": f"machine-{rank}", "NCCL_SOCKET_IFNAME": "lo"})  # fmt: skip
        for rank in range(2)
    ]
    try:
        assert all("done" in said for said in finished(*ranks))
    finally:
        for one in ranks:
            one.kill()
