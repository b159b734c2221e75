"""Arrays of whichever library: how they are looked at, and how new ones are made. No library is imported here: who
hands over one of its arrays has imported it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from . import _weft
from .errors import ArgumentError


_LIBRARIES = ("numpy", "torch", "cupy", "jax")


def library_of_type(kind: Any) -> str:
    """`numpy`, `torch`, …"""
    names: list[str] = [base.__module__.partition(".")[0] for base in kind.__mro__]  # subclasses are of their base's library
    return next((name for name in names if name in _LIBRARIES), names[0])


def library_of(array: Any) -> str:
    kind: Any = type(array)
    return library_of_type(kind)


def is_traced(array: Any) -> bool:
    """Of JAX's: is it what `jit` and the like see in place of an array?"""
    return isinstance(array, sys.modules["jax"].core.Tracer)


def is_of_xla(array: Any) -> bool:
    """Of JAX's: is it on a GPU, where memory and streams are XLA's? What is traced is nowhere yet."""
    return not is_traced(array) and any(device.platform == "gpu" for device in array.devices())


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


def integers(value: Any, name: str) -> list[int]:
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return [value.__index__()]
    try:
        # At once: each element of an array on a GPU would be waited for.
        return [item.__index__() for item in (value.tolist() if hasattr(value, "tolist") else value)]
    except (TypeError, AttributeError):
        raise TypeError(f"{name} is a {type(value).__name__}; expected an int or a sequence of ints") from None


class Borders(NamedTuple):
    """Borders of packed sequences that kernels read when they run, and the most tokens that one may have."""

    at: Any
    most: int


def borders(at: Any, most: int | None, name: str) -> Borders:
    if most is None or not hasattr(at, "__dlpack__"):
        raise ArgumentError(f"max_q and max_k go together, with cu_q and cu_k that are arrays on the device of q; {name} is {at!r}, "
                            f"its most {most}")  # fmt: skip
    return Borders(at, most)


def dense_last(array: Any, name: str, stride: int) -> Any:
    """A copy whose last axis is dense, where the array's library can make one."""
    library = library_of(array)
    if library == "numpy":
        return sys.modules["numpy"].ascontiguousarray(array)
    if library == "torch":
        return array.detach().contiguous()
    raise ArgumentError(f"{name}: the last axis has stride {stride}; expected 1: make the array contiguous")


_NUMPY_NAMES = {"f32": "float32", "f16": "float16", "f64": "float64", "i32": "int32", "u8": "uint8"}


def empty(like: Any, shape: tuple[int, ...], dtype: str, same: bool) -> Any:
    """A new array of the library and the device of `like`; `same`: also of its dtype, which `dtype` names."""
    library = library_of(like)
    if library in ("numpy", "cupy"):
        return sys.modules[library].empty(shape, like.dtype if same else _NUMPY_NAMES[dtype])
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=like.dtype if same else getattr(torch, _NUMPY_NAMES[dtype]), device=like.device)
    if library == "jax" and is_of_xla(like):
        raise ArgumentError("arrays of JAX on a GPU are written by XLA alone; weft.attention, weft.vjp and kernels take them, through weft.jax")
    return _weft.Array(list(shape), dtype)


def to_jax(made: _weft.Array) -> Any:
    """The same memory: nobody else writes it."""
    return sys.modules["jax"].dlpack.from_dlpack(made)


def captured_scratch(like: Any, size: int) -> Any:
    """Where PyTorch's stream is captured into a graph, so many bytes that the graph keeps; else None."""
    torch = sys.modules["torch"]
    if not like.is_cuda or not torch.cuda.is_current_stream_capturing():
        return None
    return torch.empty(size, dtype=torch.uint8, device=like.device)


def zeros(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    made = empty(like, shape, dtype, True)
    if isinstance(made, _weft.Array):
        if 0 in shape:
            return made
        raise ArgumentError("k has no keys, which is answered for arrays of NumPy, PyTorch and CuPy alone")
    made[...] = 0
    return made


def joined(parts: list[Any], axis: int) -> Any:
    library = library_of(parts[0])
    return sys.modules["jax.numpy" if library == "jax" else library].concatenate(parts, axis=axis)
