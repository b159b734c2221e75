"""LongNet's attention (Ding et al. 2023, section 3): dilated branches that each head mixes by their softmax denominators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import sqrt
from typing import Any, Literal

import torch
from torch import nn

from .._attention import attention
from ..patterns import Pattern, branches
from .dilated import Tensor, checked_lists
from .xpos import Xpos

__all__ = ["LongNetAttention"]

#: Which residue of its rate a head begins with: the paper's goes by heads in turn, torchscale's by blocks of heads.
PHASES = {"paper": None, "torchscale": "h / ((H + rate - 1) / rate)"}
MIXES = {"full": "joint", "detached": "joint detached"}
_INPUTS = {
    "lengths": ("i32[batch]", "keep lengths(lengths);"),
    "present": ("u8[batch, keys]", "keep where(present[b, k] != 0);"),
}


def _pattern(branch: str, combine: str, is_causal: bool, given: tuple[str, ...]) -> Pattern:
    # An input cannot have a set's name.
    lines = [f"input {name}_of: {_INPUTS[name][0]};" for name in given]
    lines += [branch, f"combine {combine};", *(["keep causal;"] if is_causal else [])]
    lines += [_INPUTS[name][1].replace(f"({name})", f"({name}_of)").replace(f"{name}[", f"{name}_of[") for name in given]
    return Pattern.parse("pattern long_net_attention {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


class LongNetAttention(nn.Module):
    """[batch, tokens, embed_dim], with torchscale's names of parameters: q_proj, k_proj, v_proj, out_proj, inner_attn_ln.

    `phase`: `"paper"` or `"torchscale"`. `mix_gradient`: `"full"` differentiates the mix, `"detached"` takes it as given, as
    torchscale does. `xpos`: q and k are turned and scaled by their positions. `sub_layer_norm`: a norm before `out_proj`."""

    def __init__(self, embed_dim: int, num_heads: int, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, *, phase: Literal["paper", "torchscale"] = "paper",
                 mix_gradient: Literal["full", "detached"] = "full", xpos: bool = False, xpos_scale_base: float = 512,
                 sub_layer_norm: bool = False, layer_norm_eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        for name, value, words in (("phase", phase, PHASES), ("mix_gradient", mix_gradient, MIXES)):
            if value not in words:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, words))}")
        if num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})")
        self.segment_lengths, self.dilation_rates = checked_lists(segment_lengths, dilation_rates, dropout)
        self.embed_dim, self.num_heads, self.head_dim, self.dropout = embed_dim, num_heads, embed_dim // num_heads, dropout
        where = {"device": device, "dtype": dtype}
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            linear = nn.Linear(embed_dim, embed_dim, bias=bias, **where)
            nn.init.xavier_uniform_(linear.weight, gain=1.0 if name == "out_proj" else 1 / sqrt(2))
            setattr(self, name, linear)
        if bias:
            nn.init.zeros_(self.out_proj.bias)
        self.inner_attn_ln = nn.LayerNorm(embed_dim, eps=layer_norm_eps, **where) if sub_layer_norm else None
        self.xpos = Xpos(self.head_dim, xpos_scale_base).to(device=device) if xpos else None
        branch = branches(self.segment_lengths, self.dilation_rates, phase=PHASES[phase]).text
        self._patterns = {
            (is_causal, given): _pattern(branch, MIXES[mix_gradient], is_causal, given)
            for is_causal in (False, True)
            for count in range(len(_INPUTS) + 1)
            for given in itertools.combinations(_INPUTS, count)
        }

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *, is_causal: bool = True,
                lengths: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:  # fmt: skip
        """`lengths` [batch]: tokens of each sequence, what is behind them is padding. `key_padding_mask` [batch, tokens]: True is
        not attended, wherever it stands."""
        key, value = query if key is None else key, query if value is None else value
        shapes = [list(x.shape) for x in (query, key, value)]
        if any(x.dim() != 3 for x in (query, key, value)):
            raise ValueError(f"Expected 3D tensors [batch, tokens, embed_dim], got the shapes {shapes}")
        if any(shape[2] != self.embed_dim for shape in shapes):
            raise ValueError(f"the embedding dimension is {self.embed_dim}; the shapes are {shapes}")
        inputs: dict[str, Tensor] = {}
        if lengths is not None:
            inputs["lengths"] = lengths.to(torch.int32)
        if key_padding_mask is not None:
            inputs["present"] = (~key_padding_mask).to(torch.uint8)
        pattern = self._patterns[bool(is_causal), tuple(name for name in _INPUTS if name in inputs)]
        parts = zip((self.q_proj, self.k_proj, self.v_proj), (query, key, value))
        q, k, v = (project(x).unflatten(-1, (self.num_heads, self.head_dim)) for project, x in parts)
        if self.xpos is not None:
            q = self.xpos(q.transpose(1, 2)).transpose(1, 2).to(v.dtype)
            k = self.xpos(k.transpose(1, 2), downscale=True).transpose(1, 2).to(v.dtype)
        out = attention(q, k, v, pattern, inputs={f"{name}_of": x for name, x in inputs.items()} or None,
                        dropout=self.dropout if self.training else 0.0).flatten(-2)  # fmt: skip
        return self.out_proj(out if self.inner_attn_ln is None else self.inner_attn_ln(out))
