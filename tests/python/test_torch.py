"""PyTorch's tensors on CPUs: read in place, differentiated by autograd. Skipped where there is no PyTorch, which
`./dev test --all` installs."""

import gc
import weakref

import numpy as np
import pytest
from reference import attend, bound, positions

import weft

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture
def qkv():
    torch.manual_seed(3)
    return tuple(torch.randn(2, heads, 40, 16, requires_grad=True) for heads in (4, 2, 2))


def test_forward_is_that_of_numpy(qkv):
    found = weft.attention(*qkv, "window", width=9, layout="bhnd")
    assert isinstance(found, torch.Tensor) and found.shape == (2, 4, 40, 16)
    arrays = [x.detach().transpose(1, 2).numpy() for x in qkv]
    q, k = positions(40, 40)
    np.testing.assert_allclose(found.detach().transpose(1, 2), attend(*arrays, [(k <= q) & (k > q - 9)])[0], atol=bound(arrays[2], 40))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(qkv, dtype):
    q, k, v = (x.detach().to(dtype) for x in qkv)
    found = weft.attention(q, k, v, "causal", layout="bhnd")
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True, enable_gqa=True)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), want, atol=2e-2, rtol=0)


def test_gradients_are_those_of_sdpa(qkv):
    weights = torch.randn(2, 4, 40, 16)
    want = torch.autograd.grad((F.scaled_dot_product_attention(*qkv, is_causal=True, enable_gqa=True) * weights).sum(), qkv)
    found = torch.autograd.grad((weft.attention(*qkv, "causal", layout="bhnd") * weights).sum(), qkv)
    for one, other in zip(found, want):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_only_what_is_needed_is_computed(qkv):
    q, k, v = qkv
    weft.attention(q.detach(), k, v.detach(), "causal", layout="bhnd").sum().backward()  # .sum() hands an expanded dO
    assert q.grad is None and v.grad is None and k.grad.abs().sum() > 0


@pytest.mark.parametrize("pattern", ["dilated_attention", "longnet", "torchscale"])
def test_gradcheck(pattern):
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 10, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    if pattern == "torchscale":  # its mix is not differentiated: not the slope
        weft.attention(q, k, v, pattern, segments=[4, 8], rates=[1, 2]).sum().backward()
        assert torch.isfinite(q.grad).all()
        return
    assert torch.autograd.gradcheck(lambda *x: weft.attention(*x, pattern, segments=[4, 8], rates=[1, 2]), (q, k, v))


def test_inputs_and_lse_have_gradients():
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 10, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias, gate = torch.randn(2, 10, requires_grad=True), torch.ones(10, dtype=torch.uint8)
    table = weft.input("bias", "f32", "heads", 10)
    kept = weft.input("gate", "u8", "tokens")
    pattern = weft.pattern(weft.where(lambda q, k: kept[k] != 0), keep=weft.causal, score=lambda s, h, q, k: s + table[h, q - k])
    out, lse = weft.attention(q, k, v, pattern, inputs={"bias": bias, "gate": gate}, return_lse=True)
    found = torch.autograd.grad(out.sum() + 3 * lse.sum(), (q, bias))
    distance = torch.arange(10)[:, None] - torch.arange(10)[None]
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 2 + bias[:, distance.clamp(min=0)]
    scores = scores.masked_fill(distance < 0, -torch.inf)
    want_out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
    want = torch.autograd.grad(want_out.sum() + 3 * scores.logsumexp(-1).sum(), (q, bias))
    torch.testing.assert_close(out, want_out, atol=1e-9, rtol=0)
    for one, other in zip(found, want):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_dropout_follows_the_generator(qkv):
    def drawn():
        torch.manual_seed(11)
        return weft.attention(*qkv, "dense", layout="bhnd", dropout=0.5)

    assert torch.equal(drawn(), drawn())
    assert not torch.equal(drawn(), weft.attention(*qkv, "dense", layout="bhnd", dropout=0.5))
    q, k, v = qkv
    torch.manual_seed(11)
    weft.attention(*qkv, "dense", layout="bhnd")
    after = torch.rand(1)
    torch.manual_seed(11)
    assert torch.equal(after, torch.rand(1)), "without dropout nothing is drawn"
    out = drawn()
    (d_v,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((d_v * v).sum(), out.sum(), atol=1e-3, rtol=1e-3)  # O is linear in V


def test_a_model_learns():
    torch.manual_seed(5)
    project = torch.nn.Linear(8, 24)
    x, target = torch.randn(4, 32, 8), torch.randn(4, 32, 2, 4)
    descent = torch.optim.Adam(project.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        q, k, v = project(x).view(4, 32, 3, 2, 4).unbind(2)
        loss = (weft.attention(q, k, v, "causal") - target).square().mean()
        descent.zero_grad()
        loss.backward()
        descent.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_changed_tensors_are_noticed(qkv):
    q, k, v = (x.detach().clone().requires_grad_() for x in qkv)
    scaled = q * 1
    out = weft.attention(scaled, k, v, "causal", layout="bhnd")
    scaled.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_what_cannot_be_is_told(qkv):
    q, k, v = qkv
    with pytest.raises(weft.ArgumentError, match="out is given, and gradients are recorded"):
        weft.attention(q, k, v, layout="bhnd", out=torch.empty(2, 4, 40, 16))
    with torch.no_grad():
        place = torch.empty(2, 4, 40, 16)
        assert weft.attention(q, k, v, layout="bhnd", out=place) is place
    out = weft.attention(q, k, v, layout="bhnd")
    (gradient,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.sum().backward()


def test_nothing_is_kept(qkv):
    out = weft.attention(*qkv, "causal", layout="bhnd")
    out.sum().backward()
    gone = weakref.ref(out)
    del out
    gc.collect()
    assert gone() is None
