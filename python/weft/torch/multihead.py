"""Multi-head modules of dilated-attention-pytorch: projections and norms under their names, so that checkpoints load."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch import nn

from .dilated import Dilated, DilatedAttention, ImprovedDilatedAttention
from .inputs import Tensor, check_embedded, checked_heads, masks_of_multihead
from .ring import RingDilatedAttention

__all__ = ["MultiheadDilatedAttention", "ImprovedMultiheadDilatedAttention", "RingMultiheadDilatedAttention"]


class _Multihead(nn.Module):
    """out_proj(norm(attention(projections))). With `_fused` one projection makes q, k and v, and neither q nor k is normalised:
    `k_ln` is there for checkpoints alone. `_pair`: results are pairs, whatever `need_weights` says."""

    _fused, _pair = True, True

    def __init__(self, embed_dim: int, num_heads: int, attention: Dilated, bias: bool, layer_norm: bool, layer_norm_eps: float,
                 gamma_init: float, device: Any, dtype: Any) -> None:  # fmt: skip
        super().__init__()
        self.embed_dim, self.num_heads, self.gamma_init = embed_dim, num_heads, gamma_init
        self.head_dim = checked_heads(embed_dim, num_heads)
        if self.head_dim % 8:
            warnings.warn(f"head_dim ({self.head_dim}) should be divisible by 8 for speed", stacklevel=3)
        if self.head_dim > 128:
            warnings.warn(f"head_dim ({self.head_dim}) > 128 is slow", stacklevel=3)
        self.attention = attention
        where = {"device": device, "dtype": dtype}
        if self._fused:
            self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim, bias=bias, **where)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed_dim, embed_dim, bias=bias, **where) for _ in range(3))
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **where)
        self.q_ln = nn.LayerNorm(embed_dim, eps=layer_norm_eps, **where) if layer_norm else None
        self.k_ln = nn.LayerNorm(embed_dim, eps=layer_norm_eps, **where) if layer_norm else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """MAGNETO (Wang et al. 2022): values and outputs by `gamma_init`; separate projections all are."""
        weights = self.qkv_proj.weight.chunk(3) if self._fused else [x.weight for x in (self.q_proj, self.k_proj, self.v_proj)]
        for number, weight in enumerate([*weights, self.out_proj.weight]):
            nn.init.xavier_normal_(weight, gain=1.0 if self._fused and number < 2 else self.gamma_init)
        for module in self.children():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, key_padding_mask: Tensor | None = None,
                need_weights: bool = False, attn_mask: Tensor | None = None, is_causal: bool = False,
                average_attn_weights: bool = True) -> Tensor | tuple[Tensor, None]:  # fmt: skip
        """[batch, tokens, embed_dim]. Masks as in `torch.nn.MultiheadAttention`: True is not attended. `key_padding_mask` [batch,
        tokens]; `attn_mask` [tokens, tokens] or [batch, tokens, tokens], floats are added. Weights are not made: None."""
        key, value = query if key is None else key, query if value is None else value
        check_embedded(self.embed_dim, query, key, value)
        batch, tokens = query.shape[:2]
        q, k, v = (x.reshape(batch, tokens, self.num_heads, self.head_dim) for x in self._projected(query, key, value))
        self.attention.check(q, k, v)
        out = self.attention.attend(q, k, v, is_causal, masks_of_multihead(query, attn_mask, key_padding_mask))
        out = out.reshape(batch, tokens, self.embed_dim)
        out = self.out_proj(out if self.q_ln is None else self.q_ln(out))
        return (out, None) if self._pair or need_weights else out

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self._fused:
            weights = self.qkv_proj.weight.chunk(3)
            biases = (None,) * 3 if self.qkv_proj.bias is None else self.qkv_proj.bias.chunk(3)
            if key is query and value is query:
                q, k, v = self.qkv_proj(query).chunk(3, dim=-1)
            else:
                q, k, v = (nn.functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
            return q, k, v
        q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        return (q, k, v) if self.q_ln is None or self.k_ln is None else (self.q_ln(q), self.k_ln(k), v)


class MultiheadDilatedAttention(_Multihead):
    """Rates stand before segments. A tensor; a pair where `need_weights`. `q_ln` is asked twice, as in the original: of q, and
    of what `out_proj` is given."""

    _fused, _pair = False, False

    def __init__(self, embed_dim: int, num_heads: int, dilation_rates: Sequence[int], segment_lengths: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, layer_norm: bool = True, layer_norm_eps: float = 1e-5,
                 gamma_init: float = 1.0, device: Any = None, dtype: Any = None, op: Any = None, *,
                 ragged: bool = False) -> None:  # fmt: skip
        attention = DilatedAttention(segment_lengths, dilation_rates, None, dropout, ragged=ragged)
        super().__init__(embed_dim, num_heads, attention, bias, layer_norm, layer_norm_eps, gamma_init, device, dtype)


class ImprovedMultiheadDilatedAttention(_Multihead):
    """Rates stand before segments. Always a pair; one `qkv_proj`; masks count."""

    def __init__(self, embed_dim: int, num_heads: int, dilation_rates: Sequence[int], segment_lengths: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, layer_norm: bool = True, layer_norm_eps: float = 1e-5,
                 gamma_init: float = 1.0, device: Any = None, dtype: Any = None, use_tf32: bool = True, *,
                 ragged: bool = False) -> None:  # fmt: skip
        attention = ImprovedDilatedAttention(segment_lengths, dilation_rates, dropout, ragged=ragged)
        super().__init__(embed_dim, num_heads, attention, bias, layer_norm, layer_norm_eps, gamma_init, device, dtype)


class RingMultiheadDilatedAttention(_Multihead):
    """Segments stand before rates. Always a pair; one `qkv_proj`; masks count. With more than one rank as `RingDilatedAttention`."""

    def __init__(self, embed_dim: int, num_heads: int, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, layer_norm: bool = True, layer_norm_eps: float = 1e-5,
                 gamma_init: float = 1.0, block_size: int = 1024, ring_size: int | None = None, use_checkpointing: bool = True,
                 use_tf32: bool = True, use_flash_attention: bool = True, compile_model: bool = False, device: Any = None,
                 dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        attention = RingDilatedAttention(segment_lengths, dilation_rates, dropout, ring_size=ring_size, ragged=ragged)
        super().__init__(embed_dim, num_heads, attention, bias, layer_norm, layer_norm_eps, gamma_init, device, dtype)
