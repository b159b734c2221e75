"""`DilatedAttention` of microsoft/torchscale (architecture/longnet), for its LongNet encoders and decoders."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import ArgumentError
from .inputs import Tensor
from .long_net_attention import LongNetAttention

__all__ = ["DilatedAttention"]


def _list(args: Any, name: str) -> list[int]:
    """torchscale's configurations hold lists as text."""
    value = getattr(args, name)
    return list(ast.literal_eval(value) if isinstance(value, str) else value)


class DilatedAttention(LongNetAttention):
    """Of `args`, a configuration of torchscale: segment_length, dilated_ratio, layernorm_eps, xpos_rel_pos, xpos_scale_base,
    multiway. Phases by blocks of heads; the mix is not differentiated."""

    def __init__(self, args: Any, embed_dim: int, num_heads: int, dropout: float = 0.0, self_attention: bool = False,
                 encoder_decoder_attention: bool = False, subln: bool = False) -> None:  # fmt: skip
        if self_attention == encoder_decoder_attention:
            raise ArgumentError("one of self_attention and encoder_decoder_attention must be True")
        if getattr(args, "multiway", False):
            raise ArgumentError("multiway has projections for each kind of token, which Weft's module has not")
        super().__init__(embed_dim, num_heads, _list(args, "segment_length"), _list(args, "dilated_ratio"), dropout,
                         phase="torchscale", mix_gradient="detached", xpos=bool(args.xpos_rel_pos and self_attention),
                         xpos_scale_base=args.xpos_scale_base, sub_layer_norm=subln and self_attention,
                         layer_norm_eps=args.layernorm_eps)  # fmt: skip
        self.args = args

    def forward(self, query: Tensor, key: Tensor, value: Tensor, incremental_state: Any = None,  # type: ignore[override]
                key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None, rel_pos: Tensor | None = None,
                is_first_step: bool = False, is_causal: bool = False) -> tuple[Tensor, None]:  # fmt: skip
        for name, given in (("incremental_state", incremental_state), ("attn_mask", attn_mask), ("rel_pos", rel_pos)):
            if given is not None:
                raise ArgumentError(f"{name} has no meaning among dilated segments: leave it out (causal is is_causal=True)")
        return super().forward(query, key, value, is_causal=is_causal, key_padding_mask=key_padding_mask), None
