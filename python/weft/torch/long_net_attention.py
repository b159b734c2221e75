"""LongNet's attention (Ding et al. 2023, section 3): dilated branches that each head mixes by their softmax denominators."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Literal

import torch
from torch import nn

from .._attention import attention
from ..patterns import branches
from .inputs import LENGTHS, PRESENT, Tensor, Variants, check_embedded, checked_heads, checked_lists, padding_input
from .xpos import Xpos

__all__ = ["LongNetAttention"]

#: Which residue of its rate a head begins with: the paper's goes by heads in turn, torchscale's by blocks of heads.
PHASES: dict[str, str | None] = {"paper": None, "torchscale": "h / ((H + rate - 1) / rate)"}
MIXES: dict[str, str] = {"full": "joint", "detached": "joint detached"}


class LongNetAttention(nn.Module):
    """[batch, tokens, embed_dim], with torchscale's names of parameters: q_proj, k_proj, v_proj, out_proj, inner_attn_ln.

    `phase`: `"paper"` or `"torchscale"`. `mix_gradient`: `"full"` differentiates the mix, `"detached"` takes it as given, as
    torchscale does. `xpos`: q and k are turned and scaled by their positions. `sub_layer_norm`: a norm before `out_proj`."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    def __init__(self, embed_dim: int, num_heads: int, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, *, phase: Literal["paper", "torchscale"] = "paper",
                 mix_gradient: Literal["full", "detached"] = "full", xpos: bool = False, xpos_scale_base: float = 512,
                 sub_layer_norm: bool = False, layer_norm_eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        for name, value, words in (("phase", phase, PHASES), ("mix_gradient", mix_gradient, MIXES)):
            if value not in words:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, words))}")
        self.segment_lengths, self.dilation_rates = checked_lists(segment_lengths, dilation_rates, dropout)
        self.head_dim = checked_heads(embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
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
        statements = [branch, f"combine {MIXES[mix_gradient]};"]
        self._patterns = Variants("long_net_attention", statements, {"tokens_of": LENGTHS, "present": PRESENT})

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *, is_causal: bool = True,
                lengths: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:  # fmt: skip
        """`lengths` [batch]: tokens of each sequence, what is behind them is padding. `key_padding_mask` [batch, tokens]: True is
        not attended, wherever it stands."""
        key, value = query if key is None else key, query if value is None else value
        check_embedded(self.embed_dim, query, key, value)
        inputs: dict[str, Tensor] = {}
        if lengths is not None:
            inputs["tokens_of"] = lengths.to(torch.int32)
        if key_padding_mask is not None:
            inputs["present"] = padding_input(query, key_padding_mask)
        parts = zip((self.q_proj, self.k_proj, self.v_proj), (query, key, value))
        q, k, v = (project(x).unflatten(-1, (self.num_heads, self.head_dim)) for project, x in parts)
        if self.xpos is not None:
            q = self.xpos(q.transpose(1, 2)).transpose(1, 2).to(v.dtype)
            k = self.xpos(k.transpose(1, 2), downscale=True).transpose(1, 2).to(v.dtype)
        out = attention(q, k, v, self._patterns.of(is_causal, inputs), inputs=inputs or None,
                        dropout=self.dropout if self.training else 0.0).flatten(-2)  # fmt: skip
        return self.out_proj(out if self.inner_attn_ln is None else self.inner_attn_ln(out))
