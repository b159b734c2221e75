"""LongNet (Ding et al. 2023, section 4.1) as dilated-attention-pytorch builds it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import torch.nn.functional as F
from torch import nn

from .inputs import Tensor
from .transformer import Activation, DilatedTransformerDecoderLayer, DilatedTransformerEncoderLayer
from .xpos import Xpos

__all__ = ["LongNet", "LongNetLM"]

SEGMENTS, RATES = (2048, 4096, 8192, 16384, 32768), (1, 2, 4, 6, 12)


class _Stack(nn.Module):
    """Named as in `torch.nn.TransformerEncoder`, of which state dicts come."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class LongNet(nn.Module):
    """Encoder and decoder, both of which are given the input."""

    def __init__(self, d_model: int = 768, nhead: int = 12, num_encoder_layers: int = 12, num_decoder_layers: int = 12,
                 dim_feedforward: int = 3072, segment_lengths: Sequence[int] = SEGMENTS, dilation_rates: Sequence[int] = RATES,
                 dropout: float = 0.0, activation: Activation = F.relu, layer_norm_eps: float = 1e-5, device: Any = None,
                 dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        super().__init__()
        # MAGNETO, table 2: gains of an encoder beside a decoder.
        of_decoder = log(3 * num_decoder_layers)
        gains = ((of_decoder * log(2 * num_encoder_layers) / 3) ** 0.5, of_decoder**0.5)

        def layers(module: type[nn.Module], count: int, gain: float) -> _Stack:
            options = (d_model, nhead, segment_lengths, dilation_rates, dim_feedforward, dropout, activation, layer_norm_eps, gain)
            return _Stack([module(*options, device, dtype, ragged=ragged) for _ in range(count)])

        self.encoder = layers(DilatedTransformerEncoderLayer, num_encoder_layers, gains[0])
        self.decoder = layers(DilatedTransformerDecoderLayer, num_decoder_layers, gains[1])

    def forward(self, x: Tensor, is_causal: bool = True) -> Tensor:
        """[batch, tokens, d_model]"""
        memory, out = x, x
        for layer in self.encoder.layers:
            memory = layer(memory, is_causal)
        for layer in self.decoder.layers:
            out = layer(out, memory, is_causal, is_causal)
        return out


class LongNetLM(nn.Module):
    """Token numbers [batch, tokens] to logits [batch, tokens, num_tokens]."""

    def __init__(self, num_tokens: int, d_model: int = 768, nhead: int = 12, num_encoder_layers: int = 12,
                 num_decoder_layers: int = 12, dim_feedforward: int = 3072, segment_lengths: Sequence[int] = SEGMENTS,
                 dilation_rates: Sequence[int] = RATES, dropout: float = 0.0, activation: Activation = F.relu,
                 layer_norm_eps: float = 1e-5, device: Any = None, dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.token_embedding = nn.Embedding(num_tokens, d_model, **where)
        # The original adds it, and checkpoints were trained with that.
        self.pos_embedding = Xpos(d_model).to(**where)
        self.long_net = LongNet(d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, segment_lengths,
                                dilation_rates, dropout, activation, layer_norm_eps, ragged=ragged, **where)  # fmt: skip
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.out = nn.Linear(d_model, num_tokens, **where)

    def forward(self, x: Tensor, is_causal: bool = True) -> Tensor:
        x = self.token_embedding(x)
        return self.out(self.norm(self.long_net(x + self.pos_embedding(x), is_causal)))
