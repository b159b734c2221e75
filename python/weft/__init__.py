"""Attention patterns, compiled: `weft.attention(q, k, v, "longnet")`.

Which query-key pairs attend, and how they are scored, is said by a pattern: a name of the library, a text of the
language, or sets and functions of Python (`weft.window(255) | weft.sink(4)`), which become such a text. Weft compiles it
once for CPUs or GPUs and keeps the kernel. Neither NumPy nor PyTorch nor a GPU is needed to import this.
"""

from . import _weft
from ._weft import Array
from .attention import attention, vjp
from .errors import ArgumentError, Diagnostic, Error, InternalError, PatternError, PatternWarning, UnavailableError
from .kernel import Engine, Gradients, Kernel, compile, default_engine

__version__ = _weft.version()

__all__ = [
    "ArgumentError", "Array", "Diagnostic", "Engine", "Error", "Gradients", "InternalError", "Kernel", "PatternError",
    "PatternWarning", "UnavailableError", "attention", "compile", "default_engine", "vjp",
]  # fmt: skip
