"""LongNet's attention beside its definition in plain PyTorch: branches by explicit masks, mixed by their denominators."""

import copy
import types

import pytest

torch = pytest.importorskip("torch")
import weft  # noqa: E402
from weft.torch import LongNetAttention  # noqa: E402
from weft.torch.torchscale import DilatedAttention  # noqa: E402

SEGMENTS, RATES, HEADS, WIDTH, TOKENS = [8, 16, 32], [1, 2, 4], 6, 48, 27


def made(**options):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return LongNetAttention(WIDTH, HEADS, SEGMENTS, RATES, **options)


def turned(x, scale, base, sign):
    """xPos by complex numbers: x [batch, heads, tokens, dim]."""
    at, pairs = torch.arange(x.shape[2]), x.shape[3] // 2
    angle = at[:, None] / 10000 ** (torch.arange(pairs) / pairs)
    grown = scale ** (sign * (at - (x.shape[2] + 1) // 2) / base)[:, None]
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(grown, angle)).flatten(-2)


def plain(module, x, phase="paper", detached=False, causal=True, present=None):
    """present [batch, tokens]: keys that are no padding."""
    split = lambda name: getattr(module, name)(x).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)  # noqa: E731
    q, k, v = split("q_proj"), split("k_proj"), split("v_proj")
    if module.xpos is not None:
        q, k = (turned(y, module.xpos.scale, module.xpos.base, sign) for y, sign in ((q, 1), (k, -1)))
    scores = (q @ k.mT / (WIDTH // HEADS) ** 0.5).exp()
    at, h, sums, totals = torch.arange(x.shape[1]), torch.arange(HEADS)[:, None], [], []
    for segment, rate in zip(SEGMENTS, RATES):
        residue = h % rate if phase == "paper" else h // ((HEADS + rate - 1) // rate)
        on = at % segment % rate == residue % rate
        kept = (at[:, None] // segment == at // segment) & on[:, :, None] & on[:, None]
        if causal:
            kept = kept & (at <= at[:, None])
        kept = kept[None] if present is None else kept & present[:, None, None]
        weights = scores * kept
        totals.append(weights.sum(-1, keepdim=True))
        sums.append(weights @ v)
    all_totals = sum(totals)
    share = [total / all_totals.clamp_min(1e-30) for total in totals]
    share = [one.detach() if detached else one for one in share]
    out = sum(part * one / total.clamp_min(1e-30) for part, one, total in zip(sums, share, totals))
    out = out.transpose(1, 2).flatten(-2)
    return module.out_proj(out if module.inner_attn_ln is None else module.inner_attn_ln(out))


@pytest.fixture
def x():
    torch.manual_seed(7)
    return torch.randn(2, TOKENS, WIDTH, requires_grad=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"phase": "torchscale"},
        {"mix_gradient": "detached"},
        {"xpos": True, "sub_layer_norm": True},
        {"bias": False, "phase": "torchscale", "mix_gradient": "detached"},
    ],
    ids=["paper", "phase", "detached", "xpos", "torchscale"],
)
def test_forward_and_gradients(options, causal, x):
    module = made(**options)
    found = module(x, is_causal=causal)
    want = plain(module, x, options.get("phase", "paper"), options.get("mix_gradient") == "detached", causal)
    torch.testing.assert_close(found, want, atol=1e-4, rtol=1e-4)
    by, wrt = torch.randn_like(want), (x, *module.parameters())
    for one, other in zip(torch.autograd.grad(found, wrt, by), torch.autograd.grad(want, wrt, by)):
        torch.testing.assert_close(one, other, atol=3e-4, rtol=1e-3)


def test_padding(x):
    module = made()
    present = torch.ones(2, TOKENS, dtype=torch.bool)
    present[1, 20:] = False
    want = plain(module, x, present=present)
    torch.testing.assert_close(module(x, key_padding_mask=~present), want, atol=1e-4, rtol=1e-4)
    found = module(x, lengths=torch.tensor([TOKENS, 20]))
    torch.testing.assert_close(found[present], want[present], atol=1e-4, rtol=1e-4)


def test_it_compiles_and_is_copied(x):
    module = made(xpos=True)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), module(x))
    assert torch.equal(copy.deepcopy(module)(x), module(x))


def configuration(**changed):
    said = {"segment_length": "[8, 16, 32]", "dilated_ratio": "[1, 2, 4]", "layernorm_eps": 1e-5, "xpos_rel_pos": True}
    return types.SimpleNamespace(**{**said, "xpos_scale_base": 512, "multiway": False, **changed})


def test_torchscale(x):
    module = DilatedAttention(configuration(), WIDTH, HEADS, self_attention=True, subln=True)
    out, weights = module(x, x, x, is_causal=True)
    assert weights is None
    torch.testing.assert_close(out, plain(module, x, "torchscale", True), atol=1e-4, rtol=1e-4)
    projections = {f"{name}.{part}" for name in ("q_proj", "k_proj", "v_proj", "out_proj") for part in ("weight", "bias")}
    assert set(module.state_dict()) == projections | {"inner_attn_ln.weight", "inner_attn_ln.bias", "xpos.scale"}


def test_errors(x):
    with pytest.raises(ValueError, match="phase is 'papers'"):
        made(phase="papers")
    with pytest.raises(ValueError, match="must be divisible by"):
        LongNetAttention(50, 6, SEGMENTS, RATES)
    with pytest.raises(ValueError, match="Expected 3D"):
        made()(x[0])
    with pytest.raises(ValueError, match="embedding dimension"):
        made()(x[..., :8])
    with pytest.raises(weft.ArgumentError, match="one of self_attention"):
        DilatedAttention(configuration(), WIDTH, HEADS)
    with pytest.raises(weft.ArgumentError, match="multiway"):
        DilatedAttention(configuration(multiway=True), WIDTH, HEADS, self_attention=True)
    module = DilatedAttention(configuration(), WIDTH, HEADS, self_attention=True)
    with pytest.raises(weft.ArgumentError, match="attn_mask has no meaning"):
        module(x, x, x, attn_mask=torch.zeros(TOKENS, TOKENS))
