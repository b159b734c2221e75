"""`BlockSparseRingMultiheadDilatedAttention` of dilated-attention-pytorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from .inputs import Tensor, check_embedded, checked_heads, masks_of_multihead
from .sparse import BlockSparseRingDilatedAttention, SparsePatternConfig

__all__ = ["BlockSparseRingMultiheadDilatedAttention"]


class BlockSparseRingMultiheadDilatedAttention(nn.Module):
    """Masks count: padded keys have no weight, where the original gives them zeros for keys and ignores `attn_mask`. A tensor; a
    pair where `need_weights`."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    def __init__(self, embed_dim: int, num_heads: int, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, sparse_config: SparsePatternConfig | Mapping[str, Any] | None = None,
                 batch_first: bool = True, **kwargs: Any) -> None:  # fmt: skip
        super().__init__()
        self.head_dim = checked_heads(embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.batch_first, self.dropout = embed_dim, num_heads, batch_first, dropout
        where = {"device": kwargs.get("device"), "dtype": kwargs.get("dtype")}
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim, bias=bias, **where))
        self.dropout_layer = nn.Dropout(dropout) if dropout > 0.0 else nn.Identity()
        self.sparse_attention = BlockSparseRingDilatedAttention(segment_lengths, dilation_rates, sparse_config, **kwargs)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = False,
                attn_mask: Tensor | None = None, is_causal: bool = False, average_attn_weights: bool = True) -> Any:  # fmt: skip
        """[batch, tokens, embed_dim], or with `batch_first=False` [tokens, batch, embed_dim]. Masks as in
        `torch.nn.MultiheadAttention`: True is not attended. Weights are those of `BlockSparseRingDilatedAttention`, of each head."""
        given = (query, key, value) if self.batch_first else tuple(x.transpose(0, 1) for x in (query, key, value))
        check_embedded(self.embed_dim, *given)
        parts = zip((self.q_proj, self.k_proj, self.v_proj), given)
        q, k, v = (project(x).unflatten(-1, (self.num_heads, self.head_dim)) for project, x in parts)
        self.sparse_attention.check(q, k, v)
        inputs = masks_of_multihead(given[0], attn_mask, key_padding_mask)
        weights = None
        if need_weights:
            out, weights = self.sparse_attention.attend_with_weights(q, k, v, is_causal, inputs)
        else:
            out = self.sparse_attention.attend(q, k, v, is_causal, inputs)
        out = self.dropout_layer(self.out_proj(out.flatten(-2)))
        out = out if self.batch_first else out.transpose(0, 1)
        return (out, weights) if need_weights else out
