"""Modules by the name of their kind, as dilated-attention-pytorch makes them. Configuration objects are not taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from torch import nn

from .dilated import DilatedAttention, ImprovedDilatedAttention
from .multihead import ImprovedMultiheadDilatedAttention, MultiheadDilatedAttention, RingMultiheadDilatedAttention
from .ring import RingDilatedAttention
from .sparse import BlockSparseRingDilatedAttention, SparsePatternConfig
from .sparse_multihead import BlockSparseRingMultiheadDilatedAttention

__all__ = [
    "create_adaptive_sparse_attention",
    "create_block_sparse_attention",
    "create_dilated_attention",
    "create_multihead_dilated_attention",
]

_SEGMENTS, _RATES = (2048, 4096, 8192), (1, 2, 4)
_AUTO = "improved"

_ATTENTION: dict[str, type[nn.Module]] = {
    "standard": DilatedAttention,
    "improved": ImprovedDilatedAttention,
    "ring": RingDilatedAttention,
    "block_sparse_ring": BlockSparseRingDilatedAttention,
}
_MULTIHEAD: dict[str, type[nn.Module]] = {
    "standard": MultiheadDilatedAttention,
    "improved": ImprovedMultiheadDilatedAttention,
    "ring": RingMultiheadDilatedAttention,
    "block_sparse_ring": BlockSparseRingMultiheadDilatedAttention,
}


def _kind(name: str, among: Mapping[str, type[nn.Module]]) -> tuple[str, type[nn.Module]]:
    kind = _AUTO if name == "auto" else name
    if kind not in among:
        raise ValueError(f"Unknown attention type '{name}'; there are: auto, {', '.join(among)}")
    return kind, among[kind]


def _with_sparse_config(options: dict[str, Any]) -> dict[str, Any]:
    """Fields of the configuration may be options of their own."""
    fields = {field.name for field in dataclasses.fields(SparsePatternConfig)} & options.keys()
    rest = {name: value for name, value in options.items() if name not in fields}
    if fields:
        rest["sparse_config"] = SparsePatternConfig(**{name: options[name] for name in fields})
    return rest


def create_dilated_attention(attention_type: str = "auto", segment_lengths: Sequence[int] | None = None,
                             dilation_rates: Sequence[int] | None = None, **kwargs: Any) -> nn.Module:  # fmt: skip
    """`standard`, `improved`, `ring` or `block_sparse_ring`; `auto` is `improved`. Options are those of the class."""
    kind, module = _kind(attention_type, _ATTENTION)
    if kind == "standard" and "dropout" in kwargs:
        kwargs["attention_dropout"] = kwargs.pop("dropout")
    if kind == "block_sparse_ring":
        kwargs = _with_sparse_config(kwargs)
    return module(segment_lengths=segment_lengths or _SEGMENTS, dilation_rates=dilation_rates or _RATES, **kwargs)


def create_multihead_dilated_attention(attention_type: str = "auto", embed_dim: int = 768, num_heads: int = 12,
                                       segment_lengths: Sequence[int] | None = None,
                                       dilation_rates: Sequence[int] | None = None, **kwargs: Any) -> nn.Module:  # fmt: skip
    """The same kinds, with projections."""
    kind, module = _kind(attention_type, _MULTIHEAD)
    if kind == "block_sparse_ring":
        kwargs = _with_sparse_config(kwargs)
    lists = {"segment_lengths": segment_lengths or _SEGMENTS, "dilation_rates": dilation_rates or _RATES}
    return module(embed_dim=embed_dim, num_heads=num_heads, **lists, **kwargs)


def create_block_sparse_attention(sparsity_ratio: float = 0.9, pattern_type: str = "dilated_sparse", embed_dim: int = 768,
                                  num_heads: int = 12, **kwargs: Any) -> nn.Module:  # fmt: skip
    """With projections. `sparsity_ratio` has no effect: see `SparsePatternConfig`."""
    return create_multihead_dilated_attention(
        "block_sparse_ring", embed_dim, num_heads, sparsity_ratio=sparsity_ratio, pattern_type=pattern_type, **kwargs
    )


def create_adaptive_sparse_attention(embed_dim: int = 768, num_heads: int = 12, min_sparsity: float = 0.1,
                                     max_sparsity: float = 0.9, **kwargs: Any) -> NoReturn:  # fmt: skip
    raise ValueError(
        "Unknown pattern type: 'learned', which the original's block-sparse module has not either; "
        "create_adaptive_block_sparse makes a module that chooses blocks by what it is given"
    )
