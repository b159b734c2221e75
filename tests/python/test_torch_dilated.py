"""Modules of dilated attention, beside attention of explicit masks in plain PyTorch. Skipped where there is no PyTorch."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
from weft.torch import DilatedAttention, ImprovedDilatedAttention, RingDilatedAttention, RingDilatedAttentionV2  # noqa: E402

MODULES = [DilatedAttention, ImprovedDilatedAttention, RingDilatedAttention]


def plain(q, k, v, segments, rates, causal=False, mask=None):
    """Each group of heads in turn: the tokens of a segment from `i % rate` on attend among themselves."""
    n, heads, groups = q.shape[1], q.shape[2], len(rates)
    sizes = [heads // groups + (i < heads % groups) for i in range(groups)]
    group_of = [i for i, size in enumerate(sizes) for _ in range(size)]
    at = torch.arange(n)
    parts = []
    for h, i in enumerate(group_of):
        s, r = segments[i], rates[i]
        on = at % s % r == i % r
        kept = (at[:, None] // s == at // s) & on[:, None] & on
        if causal:
            kept = kept & (at <= at[:, None])
        scores = q[:, :, h] @ k[:, :, h].mT / q.shape[-1] ** 0.5
        if mask is not None:
            one = mask if mask.dim() == 2 else mask[:, 0]
            scores, kept = (scores, kept & one) if mask.dtype == torch.bool else (scores + one, kept)
        weights = scores.masked_fill(~kept, float("-inf")).softmax(-1).nan_to_num(0.0)
        parts.append(weights @ v[:, :, h])
    return torch.stack(parts, 2) / groups


@pytest.fixture
def qkv():
    torch.manual_seed(5)
    return tuple(torch.randn(2, 32, 5, 16, requires_grad=True) for _ in range(3))


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_forward_and_gradients(qkv, module, causal, mask):
    given = {"none": None, "bool": torch.rand(2, 1, 32, 32) < 0.7, "float": torch.randn(32, 32)}[mask]
    found = module([8, 16], [1, 2])(*qkv, causal, given)
    want = plain(*qkv, [8, 16], [1, 2], causal, given)
    torch.testing.assert_close(found, want, atol=2e-5, rtol=1e-4)
    by = torch.randn_like(want)
    for one, other in zip(torch.autograd.grad(found, qkv, by), torch.autograd.grad(want, qkv, by)):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_any_length_where_it_is_asked_for(qkv):
    part = [x[:, :27].detach() for x in qkv]
    with pytest.raises(ValueError, match="must be divisible by"):
        DilatedAttention([8, 16], [1, 2])(*part)
    found = DilatedAttention([8, 16], [1, 2], ragged=True)(*part)
    torch.testing.assert_close(found, plain(*part, [8, 16], [1, 2]), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("tokens", [32, 27])
@pytest.mark.parametrize("causal", [False, True])
def test_ring_v2_asks_with_every_query(qkv, tokens, causal):
    q, k, v = (x[:, :tokens].detach() for x in qkv)
    found = RingDilatedAttentionV2([8, 16], [1, 2])(q, k, v, causal)
    at = torch.arange(tokens)
    for h in range(5):
        i = 0 if h < 2 else 1  # the last groups take what is left
        segment, rate = [8, 16][i], [1, 2][i]
        kept = (at[:, None] // segment == at // segment) & (at % segment % rate == i % rate)
        if causal:
            kept = kept & (at <= at[:, None])
        scores = (q[:, :, h] @ k[:, :, h].mT / 4).masked_fill(~kept, float("-inf"))
        want = scores.softmax(-1).nan_to_num(0.0) @ v[:, :, h]
        torch.testing.assert_close(found[:, :, h], want, atol=2e-5, rtol=1e-4)


def test_scale_counts(qkv):
    q, k, v = (x.detach() for x in qkv)
    found = DilatedAttention([8, 16], [1, 2], 0.5)(q, k, v)
    torch.testing.assert_close(found, plain(q * 0.5 * 4, k, v, [8, 16], [1, 2]), atol=2e-5, rtol=1e-4)


def test_copies(qkv):
    module = DilatedAttention([8, 16], [1, 2])
    want = module(*qkv)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(*qkv), want)


@pytest.mark.parametrize("module", MODULES)
def test_constructor_errors(module):
    for lists, phrase in [
        (([], []), "segment_lengths cannot be empty"),
        (([8], [1, 2]), "must have the same length"),
        (([8], [0]), "must be positive"),
    ]:
        with pytest.raises(ValueError, match=phrase):
            module(*lists)
    with pytest.raises(TypeError, match="segmens"):
        module([8], [1], segmens=3)


def test_forward_errors(qkv):
    q, k, v = (x.detach() for x in qkv)
    module = DilatedAttention([8, 16], [1, 2])
    with pytest.raises(ValueError, match="expected 4D tensor"):
        module(q[0], k, v)
    with pytest.raises(ValueError, match="Shape mismatch at dimension 1"):
        module(q, k[:, :16], v)
    with pytest.raises(ValueError, match="attention_mask has the shape"):
        module(q, k, v, attention_mask=torch.ones(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="must be between 0.0 and 1.0"):
        DilatedAttention([8], [1], attention_dropout=1.5)
