"""Block-sparse modules of dilated-attention-pytorch: one softmax over the union of their blocks. Numbers of blocks are the
positions that the sets in here are of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from .._attention import attention
from .inputs import BIAS, MASK, PRESENT, Tensor, Variants, check_attended, checked_lists
from .ring import refuse_ranks

__all__ = ["BlockSparseOptimized", "BlockSparseRingDilatedAttention", "SparsePatternConfig"]


@dataclasses.dataclass
class SparsePatternConfig:
    """`sparsity_ratio` has no effect, as in the original: `get_pattern_stats` tells how much is kept."""

    pattern_type: str = "dilated_sparse"
    """`local_window`, `dilated_sparse` or `global_local`."""
    sparsity_ratio: float = 0.1
    block_size: int = 128
    local_window_size: int = 512
    """Tokens: so many blocks on both sides together."""
    global_tokens: int = 64
    """Tokens at the beginning that all attend to, in whole blocks."""


class Part(NamedTuple):
    """One of the sets whose union is kept."""

    text: str
    """In the language."""
    holds: Callable[[Tensor, Tensor], Tensor]
    """The same of tensors of numbers of blocks, for statistics and weights."""


def near(reach: int) -> Part:
    return Part(f"window({reach}, {reach})", lambda q, k: (q - k).abs() <= reach)


def _first(count: int) -> Part:
    return Part(f"prefix({count})", lambda q, k: (k < count) & (q == q))


def _at_distances(distances: Sequence[int]) -> Part:
    far = sorted(set(distances))
    words = " or ".join(["q == k", *(f"abs(q - k) == {distance}" for distance in far)])
    return Part(f"where({words})", lambda q, k: torch.stack([(q - k).abs() == distance for distance in (0, *far)]).any(0))


#: Options of the original that mean nothing here, and pass.
_WITHOUT_MEANING = {
    "device", "dtype", "ring_size", "enable_memory_pool", "enable_profiling", "lightweight_pool", "use_pattern_cache", "use_tf32",
    "use_adaptive_sparsity", "quality_threshold", "enable_packed_comm", "enable_hardware_opt",
}  # fmt: skip


class BlockSparse(nn.Module):
    """Blocks of `block_size` tokens, of which `parts` says which attend to which. It holds texts, no kernels."""

    _patterns: Variants

    def __init__(self, segments: Sequence[int], rates: Sequence[int], sparse_config: SparsePatternConfig | Mapping[str, Any] | None,
                 dropout: float = 0.0, ragged: bool = False, sparsity_config: Any = None, sparsity_ratio: float | None = None,
                 **further: Any) -> None:  # fmt: skip
        for name in further:
            if name not in _WITHOUT_MEANING:
                raise TypeError(f"{type(self).__name__} has no option '{name}'")
        super().__init__()
        self.segment_lengths, self.dilation_rates = checked_lists(segments, rates, dropout)
        given = sparse_config if sparsity_config is None else sparsity_config
        if isinstance(given, Mapping):
            given = SparsePatternConfig(**given)
        self.sparse_config: SparsePatternConfig = given or SparsePatternConfig()
        if given is None and sparsity_ratio is not None:
            self.sparse_config.sparsity_ratio = sparsity_ratio
        self.block_size, self.dropout, self.ragged = self.sparse_config.block_size, dropout, ragged
        if self.block_size <= 0:
            raise ValueError(f"block_size is {self.block_size}; it must be positive")

    def parts(self) -> list[Part]:
        config = self.sparse_config
        reach = config.local_window_size // self.block_size // 2
        if config.pattern_type == "local_window":
            return [near(reach)]
        if config.pattern_type == "dilated_sparse":
            return [_at_distances(self.dilation_rates[:3])]
        if config.pattern_type == "global_local":
            first = config.global_tokens // self.block_size
            return [near(reach), *([_first(first)] if first else [])]
        raise ValueError(
            f"Unknown pattern type: '{config.pattern_type}'; expected 'local_window', 'dilated_sparse' or 'global_local'"
        )

    def make_patterns(self, statement: str, params: str = "", inputs: Mapping[str, tuple[str, str]] | None = None) -> Variants:
        further = {**(inputs or {}), "mask": MASK, "bias": BIAS, "present": PRESENT}
        return Variants(f"block_sparse_module{params}", [statement], further)

    def check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        check_attended(q, k, v)
        if not self.ragged and q.shape[1] % self.block_size:
            raise ValueError(
                f"the {q.shape[1]} tokens must be divisible by the block size, {self.block_size}; ragged=True lifts this"
            )

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool, inputs: dict[str, Tensor], return_lse: bool = False,
               **params: Any) -> Any:  # fmt: skip
        """`inputs`: what the patterns have, `mask`, `bias` and `present` among it."""
        refuse_ranks(type(self).__name__)
        return attention(q, k, v, self._patterns.of(is_causal, inputs), inputs=inputs or None, return_lse=return_lse,
                         dropout=self.dropout if self.training else 0.0, **params)  # fmt: skip

    def kept_blocks(self, count: int, device: Any = None) -> Tensor:
        """[count, count] of blocks of queries and of keys."""
        at = torch.arange(count, device=device)
        return torch.stack([part.holds(at[:, None], at) for part in self.parts()]).any(0)

    def get_pattern_stats(self, seq_len: int) -> dict[str, Any]:
        """`total_blocks`, `active_blocks`, and `sparsity`, the share that is left out; not causal."""
        count = -(-seq_len // self.block_size)
        active = int(self.kept_blocks(count).sum())
        left_out = 1 - active / max(count * count, 1)
        return {"total_blocks": count * count, "active_blocks": active, "sparsity": left_out, "memory_reduction": left_out}

    def extra_repr(self) -> str:
        return f"block_size={self.block_size}, pattern={' | '.join(part.text for part in self.parts())}"


class FixedBlocks(BlockSparse):
    """Blocks that do not depend on what is attended."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        kept = " | ".join(part.text for part in self.parts())
        self._patterns = self.make_patterns(f"branch blocks({self.block_size}, {kept});")

    def forward(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, return_attention_weights: bool = False) -> Any:
        """[batch, tokens, heads, dim]. With `return_attention_weights` a pair: see `weights_of`."""
        self.check(q, k, v)
        return self.attend_with_weights(q, k, v, is_causal, {}) if return_attention_weights else self.attend(q, k, v, is_causal, {})

    def attend_with_weights(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool, inputs: dict[str, Tensor]) -> Any:
        out, lse = self.attend(q, k, v, is_causal, inputs, return_lse=True)
        return out, self.weights_of(q, k, lse, is_causal, inputs)

    def weights_of(self, q: Tensor, k: Tensor, lse: Tensor, is_causal: bool, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """`block_indices`: pairs of blocks, of queries and of keys; `block_values` [pairs, batch, heads, block_size, block_size]:
        weights of the one softmax, before dropout; then `block_size`, and `shape` and `num_blocks` of the whole."""
        batch, tokens, heads, dim = q.shape
        size, count = self.block_size, -(-tokens // self.block_size)
        kept = self.kept_blocks(count, q.device)
        rows, columns = (kept.tril() if is_causal else kept).nonzero().unbind(1)
        short = count * size - tokens

        def blocks_of(x: Tensor, axis: int, filling: float = 0.0) -> Tensor:
            """The tokens of an axis as [blocks, …, size, …]."""
            padded = x if not short else torch.cat((x, x.new_full((*x.shape[:axis], short, *x.shape[axis + 1 :]), filling)), axis)
            return padded.unflatten(axis, (count, size)).movedim(axis, 0)

        of_q, of_k = (blocks_of(x.float().transpose(1, 2), 2) for x in (q, k))
        scores = of_q[rows] @ of_k[columns].mT / dim**0.5
        if "bias" in inputs:
            scores = scores + _blocks_of_pairs(inputs["bias"], blocks_of, rows, columns)
        at = blocks_of(torch.arange(tokens, device=q.device), 0, tokens)
        held = at[columns][:, None, None, None] < tokens
        if is_causal:
            held = held & (at[columns][:, None, None, None] <= at[rows][:, None, None, :, None])
        if "mask" in inputs:
            held = held & (_blocks_of_pairs(inputs["mask"], blocks_of, rows, columns) != 0)
        if "present" in inputs:
            held = held & (blocks_of(inputs["present"], 1)[columns][:, :, None, None] != 0)
        lse = blocks_of(lse, 2, float("-inf"))[rows].unsqueeze(-1)
        weights = torch.where(held & lse.isfinite(), (scores - lse).exp(), 0.0)
        pairs = list(zip(rows.tolist(), columns.tolist()))
        return {"block_indices": pairs, "block_values": weights, "block_size": size, "shape": (batch, heads, tokens, tokens),
                "num_blocks": (count, count)}  # fmt: skip


def _blocks_of_pairs(x: Tensor, blocks_of: Callable[..., Tensor], rows: Tensor, columns: Tensor) -> Tensor:
    """Of [batch, queries, keys]: [pairs, batch, 1, size, size]."""
    return blocks_of(blocks_of(x, 1), 3)[columns, rows][:, :, None]


class BlockSparseRingDilatedAttention(FixedBlocks):
    """One softmax over all blocks, where the original adds one for each. By one device, whatever `ring_size`; with more than one
    rank: UnavailableError. `ragged`: any number of tokens."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 sparse_config: SparsePatternConfig | Mapping[str, Any] | None = None, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, sparse_config, **kwargs)


class BlockSparseOptimized(FixedBlocks):
    """The same."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 sparse_config: SparsePatternConfig | Mapping[str, Any] | None = None, enable_batched_ops: bool = True,
                 cache_size: int = 100, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, sparse_config, **kwargs)
