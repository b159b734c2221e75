"""`BlockSparseHierarchical` of dilated-attention-pytorch: near keys for all blocks, far ones for a few."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .inputs import Tensor
from .sparse import FixedBlocks, Part, SparsePatternConfig, near

__all__ = ["BlockSparseHierarchical", "HierarchicalConfig", "create_hierarchical_attention", "get_hierarchical_presets"]

Level = Mapping[str, int]


def _levels(*each: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"stride": stride, "window_size": window, "block_size": block} for stride, window, block in each]


@dataclasses.dataclass
class HierarchicalConfig:
    """Levels from fine to coarse: every `stride`-th token attends to `window_size` tokens around it, -1: to all. Both in whole
    blocks of the module's size; a level's own `block_size` has no effect, as in the original."""

    level_configs: Sequence[Level] | None = None

    def __post_init__(self) -> None:
        if self.level_configs is None:
            self.level_configs = _levels((64, 256, 64), (256, 1024, 128), (1024, -1, 256))

    @property
    def num_levels(self) -> int:
        return len(self.level_configs or ())


def get_hierarchical_presets() -> dict[str, HierarchicalConfig]:
    return {
        "standard": HierarchicalConfig(),
        "fine_grained": HierarchicalConfig(_levels((1, 128, 32), (2, 512, 64), (8, 2048, 128), (32, -1, 256))),
        "long_range": HierarchicalConfig(_levels((1, 512, 128), (8, 4096, 256), (64, -1, 512))),
        "ultra_sparse": HierarchicalConfig(_levels((1, 64, 16), (16, 1024, 128), (256, -1, 512))),
    }


def _part(stride: int, reach: int | None) -> Part:
    """Of blocks whose number `stride` divides; None: all keys."""
    if stride == 1 and reach is not None:
        return near(reach)
    within = None if reach is None else near(reach)
    rows = f"where(q % {stride} == 0)" if stride > 1 else "all"

    def holds(q: Tensor, k: Tensor) -> Tensor:
        return (q % stride == 0) & (within.holds(q, k) if within else k == k)

    return Part(f"({rows} & {within.text})" if within else rows, holds)


class BlockSparseHierarchical(FixedBlocks):
    """One softmax over the union of all levels' blocks. `ragged`: any number of tokens."""

    hierarchical_config: HierarchicalConfig

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int],
                 hierarchical_config: HierarchicalConfig | None = None, sparse_config: SparsePatternConfig | None = None,
                 **kwargs: Any) -> None:  # fmt: skip
        self.__dict__["hierarchical_config"] = hierarchical_config or HierarchicalConfig()  # asked for before Module's own start
        config = sparse_config or SparsePatternConfig(block_size=64)
        super().__init__(segment_lengths, dilation_rates, dataclasses.replace(config, pattern_type="hierarchical"), **kwargs)

    def parts(self) -> list[Part]:
        return [self._part_of(level) for level in self.hierarchical_config.level_configs or ()]

    def _part_of(self, level: Level) -> Part:
        window = level["window_size"]
        reach = None if window == -1 else max(1, window // self.block_size) // 2
        return _part(max(1, level["stride"] // self.block_size), reach)

    def get_pattern_stats(self, seq_len: int) -> dict[str, Any]:
        """Further `levels`: which share of the tokens begins a row of each."""
        levels = []
        for number, level in enumerate(self.hierarchical_config.level_configs or ()):
            active = len(range(0, seq_len, level["stride"]))
            levels.append({"level": number, "stride": level["stride"], "window_size": level["window_size"],
                           "active_positions": active, "coverage": active / seq_len})  # fmt: skip
        return {**super().get_pattern_stats(seq_len), "levels": levels}

    def visualize_pattern(self, seq_len: int = 1024) -> str:
        """A letter for each pair of blocks, that of its finest level."""
        count = -(-seq_len // self.block_size)
        names = "▪▫◦"
        rows = [[" "] * count for _ in range(count)]
        for number, level in reversed(list(enumerate(self.hierarchical_config.level_configs or ()))):
            part = self._part_of(level)
            for q, k in self._pairs(part, count):
                rows[q][k] = names[min(number, len(names) - 1)]
        stats = self.get_pattern_stats(seq_len)
        line = "─" * (count + 2)
        return "\n".join(["Hierarchical attention, queries down, blocks of keys across: ▪ fine, ▫ medium, ◦ coarse", line,
                          *(f"│{''.join(row)}│" for row in rows), line, f"Sparsity: {stats['sparsity']:.1%}",
                          f"Active blocks: {stats['active_blocks']}/{stats['total_blocks']}"])  # fmt: skip

    @staticmethod
    def _pairs(part: Part, count: int) -> list[list[int]]:
        import torch

        at = torch.arange(count)
        return part.holds(at[:, None], at).nonzero().tolist()


def create_hierarchical_attention(embed_dim: int, num_heads: int, segment_lengths: Sequence[int] | None = None,
                                  dilation_rates: Sequence[int] | None = None,
                                  hierarchical_config: HierarchicalConfig | None = None, **kwargs: Any) -> BlockSparseHierarchical:  # fmt: skip
    """The module has no projections: `embed_dim` and `num_heads` are those of what it is given."""
    return BlockSparseHierarchical(segment_lengths or [2048, 4096, 8192], dilation_rates or [1, 2, 4], hierarchical_config, **kwargs)
