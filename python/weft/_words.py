"""Python's values in the language's spelling, and names of dtypes in Weft's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

_DTYPES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int32": "i32", "uint8": "u8",
    "float": "f32", "half": "f16", "double": "f64",
}  # fmt: skip


def spell(value: Any, what: str = "the value") -> str:
    """`True` as `true`, `[1, 2]` as `[1, 2]`, `1e6` as `1000000.0`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        raise TypeError(f"{what} is a str; expected a number, a bool or a list of numbers")
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__"):
        number = float(value)
        if math.isnan(number):
            raise TypeError(f"{what} is NaN; the language has none")
        return repr(number)  # `inf` is a word of the language, too
    if isinstance(value, Iterable):
        return "[" + ", ".join(spell(item, what) for item in value) + "]"
    raise TypeError(f"{what} is a {type(value).__name__}; expected a number, a bool or a list of numbers")


def spell_params(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, spell(value, f"the parameter '{name}'")) for name, value in params.items())


def dtype_name(dtype: Any) -> str:
    """`f32` of `"f32"`, `"float32"`, `numpy.float32`, `numpy.dtype("float32")` and `torch.float32`."""
    if dtype is None:
        return ""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]
    return _DTYPES.get(name, name)


def bound(heads: int | None, kv_heads: int | None, dim: int | None, dim_v: int | None, dtype: Any, target: str | None) -> dict[str, Any]:
    """What of a `_weft.Request` binds a pattern; what is not said stays open."""
    sizes = {"heads": heads, "kv_heads": kv_heads, "dim": dim, "dim_v": dim_v}
    return {**{name: size or 0 for name, size in sizes.items()}, "dtype": dtype_name(dtype), "target": target or ""}
