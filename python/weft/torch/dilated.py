"""Modules of dilated attention under the names that dilated-attention-pytorch gives them: its constructors and `forward`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._attention import attention
from ..patterns import branches
from .inputs import BIAS, MASK, PRESENT, Tensor, Variants, check_attended, checked_lists, mask_inputs

__all__ = ["DilatedAttention", "ImprovedDilatedAttention"]


class Dilated(torch.nn.Module):
    """Groups of heads, one softmax for each group's branch. It holds texts, no kernels: copies and pickles are those of any
    module. `combine mean` divides by the number of groups."""

    _groups: str = "groups"
    _queries: str | None = None
    _combine: str = "mean"

    def __init__(self, segments: Sequence[int], rates: Sequence[int], scale: float | None, dropout: float, ragged: bool) -> None:
        super().__init__()
        self.segment_lengths, self.dilation_rates = checked_lists(segments, rates, dropout)
        self.num_groups, self.softmax_scale, self.dropout, self.ragged = len(rates), scale, dropout, ragged
        made = branches(self.segment_lengths, self.dilation_rates, phase="i % rate", heads=self._groups, queries=self._queries)
        inputs = {"mask": MASK, "bias": BIAS, "present": PRESENT}
        self._patterns = Variants("dilated_module", [made.text, f"combine {self._combine};"], inputs)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False,
                attention_mask: Tensor | None = None) -> Tensor:  # fmt: skip
        """[batch, tokens, heads, dim]. `attention_mask` [n, n] or [batch, 1, n, n]: True attends, floats are added to the scores;
        it takes n * n entries for each batch entry, and a set in a pattern of `weft.attention` takes none."""
        self.check(query, key, value)
        return self.attend(query, key, value, is_causal, self._mask(query, attention_mask))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, inputs: dict[str, Tensor]) -> Tensor:
        """`inputs`: those of `mask`, `bias` and `present` that there are, with an entry for each of the batch."""
        pattern = self._patterns.of(is_causal, inputs)
        return attention(query, key, value, pattern, scale=self.softmax_scale, inputs=inputs or None,
                         dropout=self.dropout if self.training else 0.0)  # fmt: skip

    def check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        check_attended(query, key, value)
        tokens, heads, longest = query.shape[1], query.shape[2], max(self.segment_lengths)
        if heads < self.num_groups:
            raise ValueError(f"num_heads ({heads}) must be >= num_groups ({self.num_groups}): one head for each segment length")
        if not self.ragged and tokens % longest:
            raise ValueError(
                f"the {tokens} tokens must be divisible by the largest segment length, {longest}; ragged=True lifts this"
            )

    @staticmethod
    def _mask(query: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        if mask is None:
            return {}
        batch, tokens = query.shape[:2]
        if mask.dim() not in (2, 4) or tuple(mask.shape) not in ((tokens, tokens), (batch, 1, tokens, tokens)):
            raise ValueError(
                f"attention_mask has the shape {list(mask.shape)}; "
                f"expected [{tokens}, {tokens}] or [{batch}, 1, {tokens}, {tokens}]"
            )
        return mask_inputs("attention_mask", mask.expand(batch, 1, tokens, tokens)[:, 0])

    def extra_repr(self) -> str:
        return f"segment_lengths={self.segment_lengths}, dilation_rates={self.dilation_rates}, dropout={self.dropout}"


def _refuse_unknown(given: dict[str, Any], where: str) -> None:
    """Options that mean nothing here pass."""
    for name in given:
        if name not in ("device", "dtype", "use_tf32"):
            raise TypeError(f"{where} has no option '{name}'")


class DilatedAttention(Dilated):
    """`softmax_scale` and `attention_mask` count, and dropout acts once, on weights. `ragged`: any number of tokens."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], softmax_scale: float | None = None,
                 attention_dropout: float = 0.0, op: Any = None, enable_memory_pool: bool = False, enable_profiling: bool = False,
                 lightweight_pool: bool = True, *, ragged: bool = False, **kwargs: Any) -> None:  # fmt: skip
        _refuse_unknown(kwargs, "DilatedAttention")
        super().__init__(segment_lengths, dilation_rates, softmax_scale, attention_dropout, ragged)


class ImprovedDilatedAttention(Dilated):
    """Equal to `DilatedAttention`. `use_tf32` changes no global setting."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], dropout: float = 0.0, use_tf32: bool = True,
                 enable_memory_pool: bool = False, enable_profiling: bool = False, lightweight_pool: bool = True, *,
                 ragged: bool = False, **kwargs: Any) -> None:  # fmt: skip
        _refuse_unknown(kwargs, "ImprovedDilatedAttention")
        super().__init__(segment_lengths, dilation_rates, None, dropout, ragged)
