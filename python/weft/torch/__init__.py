"""What Weft is to PyTorch. `weft.attention` takes its tensors, and autograd, `torch.compile`, `torch.export`, `vmap` and fake
tensors work, without importing this: here are the operators by name, and modules."""

from .calls import op_arguments
from .dilated import DilatedAttention, ImprovedDilatedAttention
from .long_net import LongNet, LongNetLM
from .long_net_attention import LongNetAttention
from .multihead import ImprovedMultiheadDilatedAttention, MultiheadDilatedAttention, RingMultiheadDilatedAttention
from .operator import op, op_backward
from .ring import RingDilatedAttention, RingDilatedAttentionV2
from .transformer import DilatedTransformerDecoderLayer, DilatedTransformerEncoderLayer

__all__ = [
    "DilatedAttention",
    "DilatedTransformerDecoderLayer",
    "DilatedTransformerEncoderLayer",
    "ImprovedDilatedAttention",
    "ImprovedMultiheadDilatedAttention",
    "LongNet",
    "LongNetAttention",
    "LongNetLM",
    "MultiheadDilatedAttention",
    "RingDilatedAttention",
    "RingDilatedAttentionV2",
    "RingMultiheadDilatedAttention",
    "op",
    "op_arguments",
    "op_backward",
]
