"""`BlockSparseAdaptive` of dilated-attention-pytorch: a small network scores pairs of blocks, and each block of queries attends to
those that score best."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import nn

from .inputs import Tensor, checked_heads
from .sparse import BlockSparse, SparsePatternConfig

__all__ = ["AdaptiveConfig", "BlockSparseAdaptive", "create_adaptive_block_sparse"]


@dataclasses.dataclass
class AdaptiveConfig:
    """`base_sparsity` is the share of blocks that is left out. Temperatures, `hard_sparsity` and `sparsity_reg_weight` are kept
    for checkpoints and configurations: which blocks score best does not depend on them."""

    base_sparsity: float = 0.9
    temperature: float = 1.0
    learnable_temperature: bool = True
    min_temperature: float = 0.1
    hidden_dim: int = 128
    num_layers: int = 2
    share_across_heads: bool = False
    sparsity_reg_weight: float = 0.01
    hard_sparsity: bool = False


class _Scorer(nn.Module):
    """Names of parameters are the original's `ImportanceScorer`'s."""

    def __init__(self, dim: int, hidden: int, layers: int, heads: int, shared: bool) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        if shared:
            between = [part for _ in range(layers - 1) for part in (nn.ReLU(), nn.Linear(hidden, hidden))]
            self.importance_net = nn.Sequential(nn.Linear(2 * dim, hidden), *between, nn.ReLU(), nn.Linear(hidden, 1))
            return
        self.head_projections = nn.ModuleList(nn.Linear(2 * dim, hidden) for _ in range(heads))
        self.head_networks = nn.ModuleList(
            nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)) for _ in range(heads)
        )

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """[batch, heads, blocks, dim] both, to [batch, heads, blocks of q, blocks of k]."""
        return torch.stack([self._of_head(head, q[:, head], k[:, head]) for head in range(self.heads)], 1)

    def _of_head(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        first: Any = self.importance_net[0] if self.shared else self.head_projections[head]
        rest: Any = self.importance_net[1:] if self.shared else self.head_networks[head]
        of_q, of_k = first.weight.chunk(2, dim=1)  # of the two joined, without joining each with each
        hidden = (q @ of_q.mT)[:, :, None] + (k @ of_k.mT)[:, None] + first.bias
        return rest(hidden).squeeze(-1)


class BlockSparseAdaptive(BlockSparse):
    """The choice is each sample's and head's own, the block on the diagonal always in it, and with `is_causal` of no later blocks.
    It is constant to the gradient, so that the scorer does not learn by it. In training scores have Gumbel noise."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], num_heads: int, head_dim: int,
                 adaptive_config: AdaptiveConfig | None = None, **kwargs: Any) -> None:  # fmt: skip
        config = adaptive_config or AdaptiveConfig()
        if not 0.0 <= config.base_sparsity < 1.0:
            raise ValueError(f"base_sparsity is {config.base_sparsity}; it must be between 0.0 and 1.0")
        options = {name: value for name, value in kwargs.items() if name not in ("block_size", "sparse_config")}
        blocks = SparsePatternConfig("adaptive", config.base_sparsity, kwargs.get("block_size", 64))
        super().__init__(segment_lengths, dilation_rates, blocks, **options)
        self.num_heads, self.head_dim, self.adaptive_config = num_heads, head_dim, config
        self.importance_scorer = _Scorer(head_dim, config.hidden_dim, config.num_layers, num_heads, config.share_across_heads)
        temperature = torch.tensor(log(config.temperature))
        if config.learnable_temperature:
            self.log_temperature = nn.Parameter(temperature)
        else:
            self.register_buffer("log_temperature", temperature)
        self.q_summary_proj, self.k_summary_proj = nn.Linear(head_dim, head_dim), nn.Linear(head_dim, head_dim)
        self.to(device=kwargs.get("device"), dtype=kwargs.get("dtype"))
        self._patterns = self.make_patterns(
            "",
            "(count: int = 1)",
            {"scores": ("f32[batch, heads, blocks, blocks]", f"branch blocks({self.block_size}, top(count, by: input(scores)));")},
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, return_pattern: bool = False) -> Any:
        """[batch, tokens, heads, dim]. With `return_pattern` a pair with `patterns`, for each head the rows and columns of the
        blocks that some sample chose, and `chosen`, bool [batch, heads, blocks, blocks]."""
        self.check(q, k, v)
        if tuple(q.shape[2:]) != (self.num_heads, self.head_dim):
            raise ValueError(f"q has {q.shape[2]} heads of {q.shape[3]}; expected {self.num_heads} of {self.head_dim}")
        scores = self.scores(q, k)
        out = self.attend(q, k, v, is_causal, {"scores": scores}, count=self.count(scores.shape[-1]))
        if not return_pattern:
            return out
        chosen = self.chosen(scores, is_causal)
        return out, {"patterns": [head.nonzero().unbind(1) for head in chosen.any(0)], "chosen": chosen}

    def count(self, blocks: int) -> int:
        """So many blocks of keys attends a block of queries to."""
        return max(1, int(blocks * blocks * (1 - self.adaptive_config.base_sparsity)) // blocks)

    @torch.no_grad()
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """[batch, heads, blocks, blocks]"""
        short = -q.shape[1] % self.block_size
        of_blocks = []
        for x, project in ((q, self.q_summary_proj), (k, self.k_summary_proj)):
            sums = nn.functional.pad(x, (0, 0, 0, 0, 0, short)).unflatten(1, (-1, self.block_size)).sum(2)
            tokens = torch.full((sums.shape[1], 1, 1), self.block_size, device=x.device)
            tokens[-1] -= short
            of_blocks.append(project((sums / tokens).to(project.weight.dtype)).transpose(1, 2))
        scores = self.importance_scorer(*of_blocks).float()
        if self.training:
            scores = scores - (-(torch.rand_like(scores) + 1e-10).log() + 1e-10).log()
        return scores.contiguous()

    def chosen(self, scores: Tensor, is_causal: bool) -> Tensor:
        """Which blocks are attended to: those of `top(count, by: input(scores))`."""
        blocks = scores.shape[-1]
        own = torch.eye(blocks, dtype=torch.bool, device=scores.device)
        preferred = scores.masked_fill(own, float("inf"))
        if is_causal:
            preferred = preferred.masked_fill(own.new_ones(blocks, blocks).triu(1), float("-inf"))
        best = preferred.sort(dim=-1, descending=True, stable=True).indices[..., : self.count(blocks)]
        return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) & (preferred > float("-inf"))

    def get_pattern_stats(self, seq_len: int) -> dict[str, Any]:
        """Not causal; the same number of blocks whatever they are."""
        blocks = -(-seq_len // self.block_size)
        active, total = blocks * min(self.count(blocks), blocks), blocks * blocks
        return {"total_blocks": total, "active_blocks": active, "sparsity": 1 - active / total, "memory_reduction": 1 - active / total}

    def get_sparsity_loss(self) -> Tensor:
        """0: the number of blocks is given, not learned."""
        return torch.zeros((), device=self.q_summary_proj.weight.device, requires_grad=True)

    def extra_repr(self) -> str:
        return f"block_size={self.block_size}, base_sparsity={self.adaptive_config.base_sparsity}"


def create_adaptive_block_sparse(embed_dim: int, num_heads: int, segment_lengths: Sequence[int] | None = None,
                                 dilation_rates: Sequence[int] | None = None, adaptive_config: AdaptiveConfig | None = None,
                                 **kwargs: Any) -> BlockSparseAdaptive:  # fmt: skip
    """The module has no projections: `embed_dim` and `num_heads` are those of what it is given."""
    head_dim = checked_heads(embed_dim, num_heads)
    lists = (segment_lengths or [2048, 4096, 8192], dilation_rates or [1, 2, 4])
    return BlockSparseAdaptive(*lists, num_heads, head_dim, adaptive_config, **kwargs)
