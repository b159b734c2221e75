"""Layers of dilated attention after MAGNETO (Wang et al. 2022), under the names of dilated-attention-pytorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import nn

from .inputs import Tensor
from .multihead import MultiheadDilatedAttention

__all__ = ["DilatedTransformerEncoderLayer", "DilatedTransformerDecoderLayer"]

Activation = str | Callable[[Tensor], Tensor]


class _Layer(nn.Module):
    """Norms before each block and inside of the feed-forward network, numbered through; residual sums."""

    _attentions: tuple[str, ...] = ("self_attn",)

    def __init__(self, d_model: int, nhead: int, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu, layer_norm_eps: float = 1e-5,
                 gamma_init: float = 1.0, device: Any = None, dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation
        self.gamma_init = gamma_init
        self.dropout = nn.Dropout(dropout)
        for number, name in enumerate(self._attentions, start=1):
            setattr(self, f"norm{number}", nn.LayerNorm(d_model, eps=layer_norm_eps, **where))
            attention = MultiheadDilatedAttention(d_model, nhead, dilation_rates, segment_lengths, dropout, True, True, layer_norm_eps,
                                                  gamma_init, ragged=ragged, **where)  # fmt: skip
            setattr(self, name, attention)
        number = len(self._attentions) + 1
        self._feedforward_norms = (f"norm{number}", f"norm{number + 1}")
        setattr(self, self._feedforward_norms[0], nn.LayerNorm(d_model, eps=layer_norm_eps, **where))
        self.linear1 = nn.Linear(d_model, dim_feedforward, **where)
        setattr(self, self._feedforward_norms[1], nn.LayerNorm(dim_feedforward, eps=layer_norm_eps, **where))
        self.linear2 = nn.Linear(dim_feedforward, d_model, **where)
        for linear in (self.linear1, self.linear2):
            nn.init.xavier_normal_(linear.weight, gain=gamma_init)
            nn.init.zeros_(linear.bias)

    def _attended(self, number: int, x: Tensor, memory: Tensor | None, is_causal: bool) -> Tensor:
        x = getattr(self, f"norm{number + 1}")(x)
        memory = x if memory is None else memory
        return self.dropout(getattr(self, self._attentions[number])(x, memory, memory, is_causal=is_causal))

    def _feedforward(self, x: Tensor) -> Tensor:
        first, second = (getattr(self, name) for name in self._feedforward_norms)
        return self.dropout(self.linear2(second(self.dropout(self.activation(self.linear1(first(x)))))))


class DilatedTransformerEncoderLayer(_Layer):
    """Self-attention, then the feed-forward network."""

    def forward(self, src: Tensor, is_causal: bool = False) -> Tensor:
        """[batch, tokens, d_model]"""
        x = src + self._attended(0, src, None, is_causal)
        return x + self._feedforward(x)


class DilatedTransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory, which has as many tokens, then the feed-forward network."""

    _attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt: Tensor, memory: Tensor, tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
        """[batch, tokens, d_model] both."""
        x = tgt + self._attended(0, tgt, None, tgt_is_causal)
        x = x + self._attended(1, x, memory, memory_is_causal)
        return x + self._feedforward(x)
