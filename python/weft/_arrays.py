"""Arrays of whichever library: how they are looked at, and how new ones are made. No library is imported here: who
hands over one of its arrays has imported it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from . import _weft
from .errors import ArgumentError


_LIBRARIES = ("numpy", "torch", "cupy", "jax")


@functools.lru_cache(maxsize=256)
def _library_of(kind: Any) -> str:
    names: list[str] = [base.__module__.partition(".")[0] for base in kind.__mro__]  # subclasses are of their base's library
    return next((name for name in names if name in _LIBRARIES), names[0])


def library_of(array: Any) -> str:
    """`numpy`, `torch`, …"""
    kind: Any = type(array)
    return _library_of(kind)


def records_gradients(*arrays: Any) -> bool:
    """Do PyTorch's tensors want to be differentiated by?"""
    tensors = [array for array in arrays if library_of(array) == "torch"]
    return any(tensor.requires_grad for tensor in tensors) and bool(sys.modules["torch"].is_grad_enabled())


def needs_operator(*arrays: Any) -> bool:
    """Do PyTorch's compiler, a mode or a transform want to see an operator in place of a launch?"""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_compiling():
        return True
    if library_of(arrays[0]) != "torch":
        return False
    plain = (torch.Tensor, torch.nn.Parameter)
    return (
        any(type(array) not in plain and library_of(array) == "torch" for array in arrays)
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def is_autocast(first: Any) -> bool:
    """Is it a tensor of PyTorch where autocast asks for another dtype?"""
    return library_of(first) == "torch" and bool(sys.modules["torch"].is_autocast_enabled(first.device.type))


def draw_seed(like: Any) -> int:
    """Of the library's own generator where it has one for all, so that its seed makes results repeat."""
    if library_of(like) == "torch":
        return int(sys.modules["torch"].randint(2**63 - 1, ()).item())
    import random

    return random.getrandbits(64)


def current_stream(array: Any) -> int | None:
    """What the array's library queues its work on; None on the host."""
    library = library_of(array)
    if library == "torch" and array.is_cuda:
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return None


def stream_address(stream: Any) -> int:
    """Of an int, or of what has `__cuda_stream__`."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    if hasattr(stream, "__index__"):
        return int(stream.__index__())
    raise TypeError(f"stream is a {type(stream).__name__}; expected an int or an object with __cuda_stream__")


_LEGACY_DEFAULT = 1  # how DLPack calls the stream 0


def view(array: Any, name: str, stream: int | None = None) -> _weft.View:
    """The array's memory, in place. Exception where it is no array or its last axis is not dense."""
    library = library_of(array)
    if library == "numpy" and array.dtype.kind == "V" and array.dtype.name == "bfloat16":  # ml_dtypes: no buffer format
        seen = _weft.View(array.view("uint16"), name)
        seen.dtype = "bf16"
        return seen
    if library == "torch" and array.requires_grad:
        array = array.detach()  # the same memory
    return _weft.View(array, name, None if stream is None else stream or _LEGACY_DEFAULT)


def is_dense_last(seen: _weft.View) -> bool:
    return not seen.shape or seen.shape[-1] <= 1 or seen.strides[-1] == 1


def input_view(array: Any, name: str, stream: int | None = None) -> _weft.View:
    """The same; what is not dense along its last axis is copied once, where its library can."""
    seen = view(array, name, stream)
    if is_dense_last(seen):
        return seen
    library = library_of(array)
    if library == "numpy":
        return view(sys.modules["numpy"].ascontiguousarray(array), name, stream)
    if library == "torch":
        return view(array.detach().contiguous(), name, stream)
    raise ArgumentError(f"{name}: the last axis has stride {seen.strides[-1]}; expected 1: make the array contiguous")


def output_view(array: Any, name: str, shape: tuple[int, ...], dtype: str, device: str) -> _weft.View:
    """A caller's place for a result, which must be exactly that."""
    seen = view(array, name)
    if seen.read_only:
        raise ArgumentError(f"{name} is read-only")
    if seen.shape != shape:
        raise ArgumentError(f"{name} has the shape {list(seen.shape)}; expected {list(shape)}")
    if seen.dtype != dtype:
        raise ArgumentError(f"{name} is {seen.dtype}; expected {dtype}")
    if seen.device != device:
        raise ArgumentError(f"{name} is on {seen.device}; expected {device}, as q")
    if not is_dense_last(seen):
        raise ArgumentError(f"{name}: the last axis has stride {seen.strides[-1]}; expected 1")
    return seen


_NUMPY_NAMES = {"f32": "float32", "f16": "float16", "f64": "float64", "i32": "int32", "u8": "uint8"}


def empty(like: Any, shape: tuple[int, ...], dtype: str, *, same: bool) -> Any:
    """A new array of the library and the device of `like`; `same`: also of its dtype, which `dtype` names."""
    library = library_of(like)
    if library in ("numpy", "cupy"):
        return sys.modules[library].empty(shape, like.dtype if same else _NUMPY_NAMES[dtype])
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=like.dtype if same else getattr(torch, _NUMPY_NAMES[dtype]), device=like.device)
    return _weft.Array(list(shape), dtype)


def zeros(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    made = empty(like, shape, dtype, same=True)
    if isinstance(made, _weft.Array):
        if 0 in shape:
            return made
        raise ArgumentError("k has no keys, which is answered for arrays of NumPy, PyTorch and CuPy alone")
    made[...] = 0
    return made
