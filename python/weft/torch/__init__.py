"""What Weft is to PyTorch. `weft.attention` takes its tensors, and autograd, `torch.compile`, `torch.export`, `vmap` and fake
tensors work, without importing this: here are the operators by name, and modules."""

from .calls import op_arguments
from .dilated import DilatedAttention, ImprovedDilatedAttention
from .factories import (
    create_adaptive_sparse_attention,
    create_block_sparse_attention,
    create_dilated_attention,
    create_multihead_dilated_attention,
)
from .long_net import LongNet, LongNetLM
from .long_net_attention import LongNetAttention
from .multihead import ImprovedMultiheadDilatedAttention, MultiheadDilatedAttention, RingMultiheadDilatedAttention
from .operator import op, op_backward
from .ring import RingDilatedAttention, RingDilatedAttentionV2, ring
from .sparse import BlockSparseOptimized, BlockSparseRingDilatedAttention, SparsePatternConfig
from .sparse_adaptive import AdaptiveConfig, BlockSparseAdaptive, create_adaptive_block_sparse
from .sparse_levels import BlockSparseHierarchical, HierarchicalConfig, create_hierarchical_attention, get_hierarchical_presets
from .sparse_multihead import BlockSparseRingMultiheadDilatedAttention
from .transformer import DilatedTransformerDecoderLayer, DilatedTransformerEncoderLayer

__all__ = [
    "AdaptiveConfig",
    "BlockSparseAdaptive",
    "BlockSparseHierarchical",
    "BlockSparseOptimized",
    "BlockSparseRingDilatedAttention",
    "BlockSparseRingMultiheadDilatedAttention",
    "DilatedAttention",
    "DilatedTransformerDecoderLayer",
    "DilatedTransformerEncoderLayer",
    "HierarchicalConfig",
    "ImprovedDilatedAttention",
    "ImprovedMultiheadDilatedAttention",
    "LongNet",
    "LongNetAttention",
    "LongNetLM",
    "MultiheadDilatedAttention",
    "RingDilatedAttention",
    "RingDilatedAttentionV2",
    "RingMultiheadDilatedAttention",
    "SparsePatternConfig",
    "create_adaptive_block_sparse",
    "create_adaptive_sparse_attention",
    "create_block_sparse_attention",
    "create_dilated_attention",
    "create_hierarchical_attention",
    "create_multihead_dilated_attention",
    "get_hierarchical_presets",
    "op",
    "op_arguments",
    "op_backward",
    "ring",
]
