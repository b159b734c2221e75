"""Ring modules of dilated-attention-pytorch: what a ring of any size computes is the pattern, here by one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import UnavailableError
from .dilated import Dilated
from .inputs import Tensor

__all__ = ["RingDilatedAttention", "RingDilatedAttentionV2"]


def refuse_ranks(name: str) -> None:
    spread = torch.distributed.is_available() and torch.distributed.is_initialized()
    if spread and torch.distributed.get_world_size() > 1:
        raise UnavailableError(
            f"{name} does not run over the {torch.distributed.get_world_size()} ranks of the process group yet; "
            "'weft run --ring mpi' and weft::Ring of C++ do"
        )


class RingDilatedAttention(Dilated):
    """Equal to `DilatedAttention` whatever the size of the ring. With more than one rank: UnavailableError."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], dropout: float = 0.0, use_tf32: bool = True,
                 block_size: int = 1024, ring_size: int | None = None, use_checkpointing: bool = True, device: Any = None,
                 dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, None, dropout, ragged)
        self.ring_size = ring_size or 1

    def attend(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, inputs: dict[str, Tensor]) -> Tensor:
        refuse_ranks(type(self).__name__)
        return super().attend(query, key, value, is_causal, inputs)


class RingDilatedAttentionV2(RingDilatedAttention):
    """Every query of a segment sees the segment's dilated keys. Causal by position; any number of tokens."""

    _groups, _queries, _combine = "groups_last", "all", "sum"

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], dropout: float = 0.0,
                 ring_size: int | None = None, device: Any = None, dtype: Any = None, enable_memory_pool: bool = False,
                 enable_profiling: bool = False, lightweight_pool: bool = True, use_pattern_cache: bool = True) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, dropout, ring_size=ring_size, ragged=True)
