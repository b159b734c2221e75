"""A LongNet language model learns bytes of this repository's text, step by step as the same model in plain PyTorch: explicit
masks, rotations by complex numbers, norms by hand, from the same state. Skipped where there is no PyTorch."""

import inspect
import pathlib

import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import cross_entropy  # noqa: E402
from weft.torch import (  # noqa: E402
    DilatedTransformerDecoderLayer,
    DilatedTransformerEncoderLayer,
    LongNet,
    LongNetLM,
)

TEXT = pathlib.Path(__file__).parents[2] / "docs/semantics.md"
SEGMENTS, RATES, HEADS, WIDTH, TOKENS, LAYERS = [16, 32, 64], [1, 2, 4], 4, 32, 64, 2


def made():
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return LongNetLM(256, WIDTH, HEADS, LAYERS, LAYERS, 48, SEGMENTS, RATES, activation="gelu")


class Plain:
    """The model as functions of a state dict."""

    def __init__(self, state):
        self.state = {name: value.clone().requires_grad_(value.is_floating_point()) for name, value in state.items()}
        self.state["pos_embedding.scale"].requires_grad_(False)

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].mT + self.state[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]

    def attention(self, name, x, memory):
        q = self.norm(f"{name}.q_ln", self.linear(f"{name}.q_proj", x))
        k = self.norm(f"{name}.k_ln", self.linear(f"{name}.k_proj", memory))
        v = self.linear(f"{name}.v_proj", memory)
        at, d, parts = torch.arange(x.shape[1]), WIDTH // HEADS, []
        sizes = [HEADS // len(RATES) + (i < HEADS % len(RATES)) for i in range(len(RATES))]
        for h, group in enumerate(i for i, size in enumerate(sizes) for _ in range(size)):
            segment, rate, part = SEGMENTS[group], RATES[group], slice(h * d, (h + 1) * d)
            on = at % segment % rate == group % rate
            kept = (at[:, None] // segment == at // segment) & on[:, None] & on & (at <= at[:, None])
            scores = (q[..., part] @ k[..., part].mT / d**0.5).masked_fill(~kept, float("-inf"))
            parts.append(scores.softmax(-1).nan_to_num(0.0) @ v[..., part])
        out = self.norm(f"{name}.q_ln", torch.cat(parts, -1) / len(RATES))
        return self.linear(f"{name}.out_proj", out)

    def layer(self, name, x, memory):
        y = self.norm(f"{name}.norm1", x)
        x, number = x + self.attention(f"{name}.self_attn", y, y), 2
        if memory is not None:
            x, number = x + self.attention(f"{name}.multihead_attn", self.norm(f"{name}.norm2", x), memory), 3
        y = torch.nn.functional.gelu(self.linear(f"{name}.linear1", self.norm(f"{name}.norm{number}", x)))
        return x + self.linear(f"{name}.linear2", self.norm(f"{name}.norm{number + 1}", y))

    def __call__(self, tokens):
        x = self.state["token_embedding.weight"][tokens]
        at = torch.arange(x.shape[1])
        turned = torch.polar(torch.ones(()), at[:, None] / 10000 ** (torch.arange(WIDTH // 2) / (WIDTH // 2)))
        grown = self.state["pos_embedding.scale"] ** ((at - x.shape[1] // 2) / 512)[:, None]
        x = x + torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turned * grown).flatten(-2)
        memory = out = x
        for i in range(LAYERS):
            memory = self.layer(f"long_net.encoder.layers.{i}", memory, None)
        for i in range(LAYERS):
            out = self.layer(f"long_net.decoder.layers.{i}", out, memory)
        return self.linear("out", self.norm("norm", out))


def test_twenty_steps():
    model = made()
    plain = Plain(model.state_dict())
    own = torch.optim.AdamW(model.parameters(), lr=3e-3)
    other = torch.optim.AdamW([p for p in plain.state.values() if p.requires_grad], lr=3e-3)
    text = torch.frombuffer(bytearray(TEXT.read_bytes()[: 20 * 2 * TOKENS + 1]), dtype=torch.uint8).long()
    losses = []
    for step in range(20):
        begin = step * 2 * TOKENS
        tokens = text[begin : begin + 2 * TOKENS].view(2, TOKENS)
        wanted = text[begin + 1 : begin + 2 * TOKENS + 1].view(2, TOKENS)
        pair = []
        for module, optimizer in ((model, own), (plain, other)):
            optimizer.zero_grad()
            loss = cross_entropy(module(tokens).flatten(0, 1), wanted.flatten())
            loss.backward()
            optimizer.step()
            pair.append(loss.item())
        assert abs(pair[0] - pair[1]) <= 1e-4, f"step {step}: {pair}"
        losses.append(pair[0])
    assert losses[-1] < 0.75 * losses[0]


def test_names_of_a_state():
    feedforward = {f"{name}.{part}" for name in ("linear1", "linear2") for part in ("weight", "bias")}
    layer = {name for name in DilatedTransformerEncoderLayer(WIDTH, HEADS, SEGMENTS, RATES, 48).state_dict() if "attn" not in name}
    assert layer == feedforward | {f"norm{i}.{part}" for i in (1, 2, 3) for part in ("weight", "bias")}
    layer = {name for name in DilatedTransformerDecoderLayer(WIDTH, HEADS, SEGMENTS, RATES, 48).state_dict() if "attn" not in name}
    assert layer == feedforward | {f"norm{i}.{part}" for i in (1, 2, 3, 4) for part in ("weight", "bias")}
    outside = {name for name in made().state_dict() if "layers" not in name}
    assert outside == {"token_embedding.weight", "pos_embedding.scale", "norm.weight", "norm.bias", "out.weight", "out.bias"}


LAYER = ["d_model", "nhead", "segment_lengths", "dilation_rates", "dim_feedforward", "dropout", "activation", "layer_norm_eps"]
LAYER += ["gamma_init", "device", "dtype"]
NET = ["d_model", "nhead", "num_encoder_layers", "num_decoder_layers", "dim_feedforward", "segment_lengths", "dilation_rates"]
NET += ["dropout", "activation", "layer_norm_eps", "device", "dtype"]


@pytest.mark.parametrize(
    "module, init, forward",
    [
        (DilatedTransformerEncoderLayer, LAYER, ["src", "is_causal"]),
        (DilatedTransformerDecoderLayer, LAYER, ["tgt", "memory", "tgt_is_causal", "memory_is_causal"]),
        (LongNet, NET, ["x", "is_causal"]),
        (LongNetLM, ["num_tokens", *NET], ["x", "is_causal"]),
    ],
)
def test_signatures_are_those_of_the_originals(module, init, forward):
    for function, wanted in ((module.__init__, init), (module.forward, forward)):
        parameters = list(inspect.signature(function).parameters.values())[1:]
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == wanted


def test_the_encoder_may_see_what_follows():
    model = made().long_net.eval()
    x = torch.randn(1, TOKENS, WIDTH)
    changed = x.clone()
    changed[:, -1] += 1
    assert torch.equal(model(x)[:, :-1], model(changed)[:, :-1])
    assert not torch.equal(model(x, is_causal=False)[:, :-1], model(changed, is_causal=False)[:, :-1])
