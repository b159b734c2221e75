"""Attention patterns, compiled: `weft.attention(q, k, v, "longnet")`.

Which query-key pairs attend, and how they are scored, is said by a pattern: a name of the library, a text of the
language, or sets and functions of Python (`weft.window(255) | weft.sink(4)`), which become such a text. Weft compiles it
once for CPUs or GPUs and keeps the kernel. Neither NumPy nor PyTorch nor a GPU is needed to import this.
"""

from . import _weft
from ._attention import attention, vjp
from ._kernels import ChosenList, Engine, Gradients, Kernel, compile, default_engine
from ._weft import Array
from .errors import ArgumentError, Diagnostic, Error, InternalError, PatternError, PatternWarning, UnavailableError
from .explanation import Explanation, doctor, explain
from .expressions import (
    Expression, Input, alibi, exp, input, log, maximum, minimum, select, sigmoid, softcap, sqrt, tanh,
)  # fmt: skip
from .patterns import Branches, Pattern, branches, pattern
from .picture import Picture
from .sets import (
    Set, all_, axial, blocks, causal, dilated, document, global_, lag, lengths, neighborhood, prefix, random, segment,
    sink, strided, table, top, where, window,
)  # fmt: skip

__version__ = _weft.version()

__all__ = [
    "ArgumentError", "Array", "Branches", "ChosenList", "Diagnostic", "Engine", "Error", "Explanation", "Expression", "Gradients", "Input",
    "InternalError", "Kernel", "Pattern", "PatternError", "PatternWarning", "Picture", "Set", "UnavailableError", "alibi", "all_",
    "attention", "axial", "blocks", "branches", "causal", "compile", "default_engine", "dilated", "doctor", "document", "exp", "explain",
    "global_", "input", "lag", "lengths", "log", "maximum", "minimum", "neighborhood", "pattern", "prefix", "random",
    "segment", "select", "sigmoid", "sink", "softcap", "sqrt", "strided", "table", "tanh", "top", "vjp", "where",
    "window",
]  # fmt: skip
