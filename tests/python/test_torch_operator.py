"""The operator that PyTorch's compiler, export, fake tensors and transforms see."""

import pytest

import weft

torch = pytest.importorskip("torch")

import weft.torch  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402

CALLS = {
    "causal": {},
    "dilated_attention": {"segments": [4, 8], "rates": [1, 2]},
    "window": {"width": 3, "dropout": 0.5, "seed": 3},
    "longnet": {"segments": [4, 8], "rates": [1, 2], "lengths": [5, 12]},
}


def tensors(n=12):
    torch.manual_seed(n)
    return tuple(torch.randn(2, n, heads, 8, requires_grad=True) for heads in (4, 2, 2))


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@pytest.mark.parametrize("pattern", CALLS)
def test_opcheck(pattern):
    torch.library.opcheck(weft.torch.op, weft.torch.op_arguments(*tensors(), pattern, **CALLS[pattern]))


@pytest.mark.filterwarnings("ignore")
def test_one_compilation_serves_all_lengths():
    counter = CompileCounter()
    pattern = weft.pattern(weft.causal, score=lambda s, h, q, k: s + weft.alibi(h) * (k - q))

    def step(q, k, v):
        return weft.attention(q, k, v, pattern).square()

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter)
    for n in (12, 13, 50, 7):
        given = tensors(n)
        found, want = compiled(*given), step(*given)
        assert torch.equal(found, want)
        for one, other in zip(torch.autograd.grad(found.sum(), given), torch.autograd.grad(want.sum(), given)):
            assert torch.equal(one, other)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", ["cpu", "emulate:sm_61"])
def test_borders_that_kernels_read(target):
    borders = torch.tensor([0, 5, 11], dtype=torch.int32)

    def step(q, k, v, cu):
        return weft.attention(q[:1], k[:1], v[:1], "causal", cu_q=cu, cu_k=cu, max_q=8, max_k=8, target=target).square()

    given = tensors()
    want = weft.attention(*(x[:1] for x in given), "causal", cu_q=[0, 5, 11], cu_k=[0, 5, 11], target=target).square()
    of_host = torch.autograd.grad(want[:, :11].sum(), given)
    for run in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        found = run(*given, borders)
        assert torch.equal(found[:, :11], want[:, :11])
        for one, other in zip(torch.autograd.grad(found[:, :11].sum(), given), of_host):
            assert torch.equal(one, other)


def test_no_borders_are_not_one_sequence():
    with pytest.raises(weft.ArgumentError, match="cu_k has no entries; one sequence has two"):
        weft.torch.op_arguments(*tensors(), "causal", cu_q=[0, 12], cu_k=[])


def test_the_compiler_may_write_the_operator_into_one_line_of_a_comment():
    text = "pattern mine {  # größer\n  keep causal;\n  branch window(3, 0) | sink(1);\n}"
    given = weft.torch.op_arguments(*tensors(), text)
    node = torch.fx.Graph().call_function(weft.torch.op, given[5:])
    assert "\n" not in node.format_node() and "sink" in node.format_node()
    assert torch.equal(weft.torch.op(*given)[0], weft.attention(*tensors(), text))
    with pytest.raises(weft.PatternError, match="<pattern>:3:10"):
        weft.torch.op_arguments(*tensors(), text.replace("branch window", "branch windw"))


@pytest.mark.filterwarnings("ignore")
def test_export():
    class Model(torch.nn.Module):
        def forward(self, q):
            return weft.attention(q, q, q, "window", width=4)

    n = torch.export.Dim("n", min=2, max=4096)
    exported = torch.export.export(Model(), (torch.randn(2, 9, 4, 8),), dynamic_shapes=({1: n},))
    x = torch.randn(2, 33, 4, 8)
    assert torch.equal(exported.module()(x), Model()(x))


@pytest.mark.parametrize("pattern", ["causal", "dilated_attention"])  # folded, and one call for each
def test_transforms(pattern):
    samples = torch.randn(3, 2, 9, 4, 8)

    def attend(x):
        return weft.attention(x, x * 2, x, pattern, **CALLS[pattern])

    want = torch.stack([attend(x) for x in samples])
    assert torch.equal(torch.func.vmap(attend)(samples), want)
    found = torch.func.vmap(torch.func.grad(lambda x: attend(x).square().sum()))(samples)
    leaf = samples.clone().requires_grad_()
    want = torch.autograd.grad(sum(attend(x).square().sum() for x in leaf), leaf)[0]
    torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


def test_autocast():
    q, k, v = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = weft.attention(q, k, v, "causal")
    assert out.dtype == torch.bfloat16
    torch.autograd.grad(out.sum(), q)


def test_what_an_operator_has_not_is_refused():
    samples = torch.randn(2, 3, 9, 4, 8)
    for name, value in (("out", torch.empty(3, 9, 4, 8)), ("engine", weft.Engine(no_cache=True)), ("stream", 1)):
        with pytest.raises(weft.ArgumentError, match=f"{name} is given, and PyTorch's compiler or a transform"):
            torch.func.vmap(lambda x: weft.attention(x, x, x, "causal", **{name: value}))(samples)  # noqa: B023
