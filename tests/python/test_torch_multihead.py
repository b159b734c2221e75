"""Multi-head modules of dilated attention, beside explicit masks in plain PyTorch. Skipped where there is no PyTorch."""

import copy
import inspect
import pickle

import pytest
import weft

torch = pytest.importorskip("torch")
from weft.torch import (  # noqa: E402
    ImprovedMultiheadDilatedAttention,
    MultiheadDilatedAttention,
    RingMultiheadDilatedAttention,
)

SEGMENTS, RATES, HEADS, WIDTH, TOKENS = [8, 16], [1, 2], 4, 32, 32
MODULES = [MultiheadDilatedAttention, ImprovedMultiheadDilatedAttention, RingMultiheadDilatedAttention]


def made(module, **options):
    lists = (SEGMENTS, RATES) if module is RingMultiheadDilatedAttention else (RATES, SEGMENTS)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        out = module(WIDTH, HEADS, *lists, **options)
        with torch.no_grad():  # biases and norms that do something
            for parameter in out.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return out


def plain(module, query, key, value, causal=False, mask=None, padding=None):
    """From the module's state alone: projections by name, one mask a head, softmax, the norm, the last projection."""
    state = dict(module.named_parameters())

    def linear(x, name, part=slice(None)):
        bias = state.get(f"{name}.bias")
        return x @ state[f"{name}.weight"][part].mT + (0 if bias is None else bias[part])

    def norm(x, name):
        if f"{name}.weight" not in state:
            return x
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    if "qkv_proj.weight" in state:
        q, k, v = (linear(x, "qkv_proj", slice(i * WIDTH, (i + 1) * WIDTH)) for i, x in enumerate((query, key, value)))
    else:
        q, k, v = norm(linear(query, "q_proj"), "q_ln"), norm(linear(key, "k_proj"), "k_ln"), linear(value, "v_proj")
    at, parts, d = torch.arange(query.shape[1]), [], WIDTH // HEADS
    for h in range(HEADS):
        of_head = slice(h * d, (h + 1) * d)
        group = h // (HEADS // 2)
        segment, rate = SEGMENTS[group], RATES[group]
        on = at % segment % rate == group % rate
        kept = ((at[:, None] // segment == at // segment) & on[:, None] & on).expand(query.shape[0], -1, -1)
        scores = q[..., of_head] @ k[..., of_head].mT / d**0.5
        if causal:
            kept = kept & (at <= at[:, None])
        if mask is not None:
            scores, kept = (scores, kept & ~mask) if mask.dtype == torch.bool else (scores + mask, kept)
        if padding is not None:
            kept = kept & ~padding[:, None]
        weights = scores.masked_fill(~kept, float("-inf")).softmax(-1).nan_to_num(0.0)
        parts.append(weights @ v[..., of_head])
    return linear(norm(torch.cat(parts, -1) / len(RATES), "q_ln"), "out_proj")


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.fixture
def x():
    torch.manual_seed(7)
    return torch.randn(2, TOKENS, WIDTH, requires_grad=True)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"layer_norm": False}], ids=["", "no bias", "no norm"])
def test_forward_and_gradients(module, options, x):
    attend = made(module, **options)
    found, want = first(attend(x, is_causal=True)), plain(attend, x, x, x, causal=True)
    torch.testing.assert_close(found, want, atol=1e-4, rtol=1e-4)
    names, parameters = zip(*((name, p) for name, p in attend.named_parameters() if "k_ln" not in name))
    by = torch.randn_like(want)
    got = torch.autograd.grad(found, (x, *parameters), by)
    for name, one, other in zip(("x", *names), got, torch.autograd.grad(want, (x, *parameters), by)):
        torch.testing.assert_close(one, other, atol=3e-4, rtol=1e-3, msg=lambda said, name=name: f"{name}: {said}")


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("kind", ["bool", "float", "of each entry"])
def test_masks_and_padding(module, kind, x):
    attend = made(module)
    mask = {
        "bool": torch.rand(TOKENS, TOKENS) < 0.3,
        "float": torch.randn(TOKENS, TOKENS),
        "of each entry": torch.rand(2, TOKENS, TOKENS) < 0.3,
    }[kind]
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    padding[1, 20:] = True
    found = first(attend(x, key_padding_mask=padding, attn_mask=mask))
    torch.testing.assert_close(found, plain(attend, x, x, x, mask=mask, padding=padding), atol=1e-4, rtol=1e-4)
    alone = first(attend(x, key_padding_mask=padding))
    torch.testing.assert_close(alone, plain(attend, x, x, x, padding=padding), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("module", MODULES)
def test_keys_and_values_of_their_own(module, x):
    attend, other, third = made(module), torch.randn_like(x), torch.randn_like(x)
    found = first(attend(x, other, third))
    torch.testing.assert_close(found, plain(attend, x, other, third), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(first(attend(x, other)), plain(attend, x, other, x), atol=1e-4, rtol=1e-4)


def test_what_is_returned(x):
    assert isinstance(made(MultiheadDilatedAttention)(x), torch.Tensor)
    assert made(MultiheadDilatedAttention)(x, need_weights=True)[1] is None
    for module in (ImprovedMultiheadDilatedAttention, RingMultiheadDilatedAttention):
        assert made(module)(x)[1] is None


NORMS = {f"{name}_ln.{part}" for name in "qk" for part in ("weight", "bias")}
OUT = {"out_proj.weight", "out_proj.bias"}
APART = {f"{name}_proj.{part}" for name in "qkv" for part in ("weight", "bias")}
FUSED = {"qkv_proj.weight", "qkv_proj.bias"}


@pytest.mark.parametrize("module, own", [*zip(MODULES, [APART, FUSED, FUSED])])
def test_checkpoints_load_strictly(module, own, x):
    attend, other = made(module), made(module)
    assert set(attend.state_dict()) == own | NORMS | OUT
    with torch.no_grad():
        other.out_proj.weight.zero_()
    other.load_state_dict(attend.state_dict(), strict=True)
    for copied in (other, copy.deepcopy(attend), pickle.loads(pickle.dumps(attend))):
        assert torch.equal(first(copied(x)), first(attend(x)))


HEAD = ["embed_dim", "num_heads"]
TAIL = ["dropout", "bias", "layer_norm", "layer_norm_eps", "gamma_init"]
FORWARD = ["query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "is_causal", "average_attn_weights"]


@pytest.mark.parametrize(
    "module, wanted",
    [
        (MODULES[0], [*HEAD, "dilation_rates", "segment_lengths", *TAIL, "device", "dtype", "op"]),
        (MODULES[1], [*HEAD, "dilation_rates", "segment_lengths", *TAIL, "device", "dtype", "use_tf32"]),
        (
            MODULES[2],
            [*HEAD, "segment_lengths", "dilation_rates", *TAIL, "block_size", "ring_size", "use_checkpointing", "use_tf32"]
            + ["use_flash_attention", "compile_model", "device", "dtype"],
        ),
    ],
)
def test_signatures_are_those_of_the_originals(module, wanted):
    def positional(function):
        parameters = list(inspect.signature(function).parameters.values())[1:]
        return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    assert positional(module.__init__) == wanted
    assert positional(module.forward) == FORWARD


@pytest.mark.parametrize("module", MODULES)
def test_errors(module, x):
    lists = (SEGMENTS, RATES) if module is RingMultiheadDilatedAttention else (RATES, SEGMENTS)
    with pytest.raises(ValueError, match="must be divisible by num_heads"):
        module(30, 4, *lists)
    with pytest.raises(ValueError, match="must be positive"):
        module(0, 4, *lists)
    with pytest.warns(UserWarning, match="should be divisible by 8"):
        module(16, 4, *lists)
    with pytest.warns(UserWarning, match="> 128"):
        module(1088, 8, *lists)
    attend = made(module)
    with pytest.raises(ValueError, match="Expected 3D tensors"):
        attend(x[0])
    with pytest.raises(ValueError, match="embedding dimension"):
        attend(x[..., :16])
    with pytest.raises(ValueError, match="batch and tokens"):
        attend(x, x[:, :16])
    with pytest.raises(ValueError, match="must be divisible by the largest segment"):
        attend(x[:, :27])
    with pytest.raises(ValueError, match="attn_mask has the shape"):
        attend(x, attn_mask=torch.zeros(3, 3))
    with pytest.raises(ValueError, match="key_padding_mask is"):
        attend(x, key_padding_mask=torch.zeros(2, TOKENS))


@pytest.mark.parametrize("module", MODULES)
def test_compiles_as_one_graph(module, x):
    attend = made(module)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(first(compiled(x)), first(attend(x)))


def test_more_ranks_than_one_take_no_masks(monkeypatch, x):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    with pytest.raises(weft.UnavailableError, match="over 4 ranks takes neither masks nor dropout"):
        made(RingMultiheadDilatedAttention)(x, attn_mask=torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool))
    made(ImprovedMultiheadDilatedAttention)(x)
