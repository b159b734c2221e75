"""Attention for JAX, inside of `jit`, `grad` and `vmap`."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from . import _weft
from ._arrays import is_of_xla, is_traced
from ._attention import LENGTHS, kernel_of, shape_of, statements_of
from ._jax import native
from ._kernels import Engine, Gradients, Kernel, heads_first
from ._sources import PatternSource, source_of
from ._words import dtype_name, spell_params
from .errors import ArgumentError

__all__ = ["attention"]

_KERNELS: dict[str, Kernel] = {}
"""By the names that stand in compiled programs, which may run as long as this process."""


class _How(NamedTuple):
    """What of a call is no array."""

    kernel: str
    heads_first: bool
    offset: int | None
    threads: int
    inputs: tuple[str, ...]
    """In the order of the pattern."""
    real: tuple[bool, ...]
    """Has such an input a gradient?"""
    lse: str
    branches: int


def _named(kernel: Kernel) -> str:
    """A name that no other kernel has."""
    name = f"{kernel.name}/{hashlib.sha256(repr(sorted(kernel._request.items())).encode()).hexdigest()[:32]}"
    if name not in _KERNELS:
        _KERNELS[name] = kernel
        _weft.jax_keep(name + "/forward", kernel.recording)
    return name


def _shape_of_lse(how: _How, q: Any) -> tuple[int, ...]:
    batch, heads, rows = q.shape[0], q.shape[1 if how.heads_first else 2], q.shape[2 if how.heads_first else 1]
    if how.lse == "none":
        return (0,)
    return (how.branches, batch, heads, rows) if how.lse == "branches" else (batch, heads, rows)


def _call(how: _How, backward: bool, results: tuple[Any, ...], arguments: tuple[Any, ...], mapped: str) -> Any:
    name = f"{how.kernel}/{'backward' if backward else 'forward'}"
    if native.why_not():
        return jax.pure_callback(functools.partial(_on_host, how, backward), results, *arguments, vmap_method=mapped)
    call = jax.ffi.ffi_call(native.TARGET, results, vmap_method=mapped)
    return call(*arguments, kernel=name, backward=backward, heads_first=how.heads_first, has_offset=how.offset is not None,
                offset=np.int64(how.offset or 0), threads=np.int32(how.threads))  # fmt: skip


def _on_host(how: _How, backward: bool, *arguments: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The same through Python, where XLA cannot call kernels itself."""
    arrays = [np.asarray(x) for x in arguments]
    lead = arrays[0].shape[:-4]  # of `vmap`

    def joined(x: Any, rank: int) -> Any:
        return x.reshape(-1, *x.shape[-rank + 1 :]) if x.ndim > rank else x

    def parted(x: Any) -> Any:
        return x.reshape(*lead, -1, *x.shape[1:]) if lead else x

    kernel = _KERNELS[how.kernel]
    count = 7 if backward else 3
    inputs = dict(zip(how.inputs, arrays[count:]))
    seed = int(arrays[count + len(how.inputs)].view(np.uint64)[0]) if len(arrays) > count + len(how.inputs) else 0
    options = (how.heads_first, inputs, how.offset, None, None, seed, how.threads, None)
    q, k, v = (joined(x, 4) for x in arrays[:3])
    empty = np.zeros((*lead, 0), np.float32)
    if not backward:
        out, lse = kernel.forward(q, k, v, *options)
        return parted(out), empty if lse is None else parted(lse)
    rank = 4 if how.lse == "branches" else 3
    out, d_out = joined(arrays[3], 4), joined(arrays[5], 4)
    lse, d_lse = (None if how.lse == "none" else joined(x, rank) for x in (arrays[4], arrays[6]))
    found = kernel.backward(q, k, v, out, lse, d_out, d_lse, None, *options)
    of_inputs = (found.inputs[name] for name, real in zip(how.inputs, how.real) if real)
    return (parted(found.q), parted(found.k), parted(found.v), *of_inputs)


def _mapped(how: _How, seed: Any) -> str:
    """Mapped axes become part of the batch where everything has one."""
    return "sequential" if how.inputs or seed is not None or how.lse == "branches" else "broadcast_all"


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(how: _How, q: Any, k: Any, v: Any, inputs: tuple[Any, ...], seed: Any) -> tuple[Any, Any]:
    out = jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)
    lse = jax.ShapeDtypeStruct(_shape_of_lse(how, q), jnp.float32)
    given = (q, k, v, *inputs, *(() if seed is None else (seed,)))
    return tuple(_call(how, False, (out, lse), given, _mapped(how, seed)))


def _attention_forward(how: _How, q: Any, k: Any, v: Any, inputs: tuple[Any, ...], seed: Any) -> Any:
    out, lse = made = cast("tuple[Any, Any]", _attention(how, q, k, v, inputs, seed))
    return made, (q, k, v, out, lse, inputs, seed)


def _attention_backward(how: _How, saved: Any, given: Any) -> Any:
    q, k, v, out, lse, inputs, seed = saved
    d_out, d_lse = given
    _weft.jax_keep(how.kernel + "/backward", _KERNELS[how.kernel]._gradient)  # compiled where it was not
    real = [x for x, is_real in zip(inputs, how.real) if is_real]
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v, *real))
    arguments = (q, k, v, out, lse, d_out.astype(q.dtype), d_lse, *inputs, *(() if seed is None else (seed,)))
    of_q, of_k, of_v, *rest = _call(how, True, results, arguments, _mapped(how, seed))
    found = iter(rest)
    of_inputs = tuple(next(found) if real else np.zeros(x.shape, jax.dtypes.float0) for x, real in zip(inputs, how.real))
    return of_q, of_k, of_v, of_inputs, None if seed is None else np.zeros(seed.shape, jax.dtypes.float0)


_attention.defvjp(_attention_forward, _attention_backward)


def _seed_of(seed: Any) -> Any:
    if seed is None:
        raise ArgumentError("weights are dropped, and JAX draws nothing by itself; expected seed=, such as jax.random.bits(key)")
    if isinstance(seed, int):
        return jnp.asarray([seed % 2**32, seed // 2**32 % 2**32], jnp.uint32)
    seed = jnp.asarray(seed)
    if seed.shape != () or seed.dtype not in (jnp.uint32, jnp.int32):
        raise ArgumentError(f"seed is {seed.dtype}{list(seed.shape)}; expected an int, or a uint32 such as jax.random.bits(key)")
    return jnp.stack([seed.astype(jnp.uint32), jnp.uint32(0)])


def _checked(name: str, array: Any, like: Any) -> Any:
    array = jnp.asarray(array)
    if array.ndim != 4:
        raise ArgumentError(f"{name} has {array.ndim} axes: {list(array.shape)}; expected 4")
    if like is not None and array.dtype != like.dtype:
        raise ArgumentError(f"{name} is {dtype_name(array.dtype)}; expected {dtype_name(like.dtype)}, as q")
    return array


def attention(q: Any, k: Any, v: Any, pattern: PatternSource = "dense", *, layout: str = "bnhd", scale: float | None = None,
              dropout: float = 0.0, seed: Any = None, inputs: Mapping[str, Any] | None = None, lengths: Any = None,
              offset: int | None = None, return_lse: bool = False, target: str | None = None, threads: int = 0,
              engine: Engine | None = None, **params: Any) -> Any:  # fmt: skip
    """`weft.attention` of JAX's arrays, concrete or traced: the kernel is compiled when the call is traced, and XLA runs it.
    Shapes, patterns, inputs and results are as there.

    It differs in this: `seed` must be given where weights are dropped, an int or a uint32 that may be traced
    (`jax.random.bits(key)`); `offset` is one number; there are no `cu_q`, `cu_k`, `out` and
    `stream`. It has first derivatives, of q, k, v and f32 inputs, also through the LSE. `vmap` makes mapped axes part of
    the batch; calls with inputs or dropout run one after the other instead. Where XLA cannot call kernels itself, as
    there is no C++ compiler or `WEFT_JAX=python`, it does so through `jax.pure_callback`: right, and slower.

    >>> import jax
    >>> x = jax.numpy.ones((1, 8, 2, 16))
    >>> jax.jit(lambda x: attention(x, x, x, "causal"))(x).shape
    (1, 8, 2, 16)
    """
    q = _checked("q", q, None)
    k, v = _checked("k", k, q), _checked("v", v, q)
    dtype = dtype_name(q.dtype)
    if dtype not in ("f32", "f16", "bf16", "f64"):
        raise ArgumentError(f"q is {dtype}; expected f32, f16, bf16 or f64")
    if 0 in (*q.shape, *k.shape, *v.shape):
        raise ArgumentError(f"an axis has the extent 0: q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}")
    given = dict(inputs or {})
    if lengths is not None:
        given[LENGTHS] = lengths
    if target is None:
        target = "interpreter" if dtype == "f64" else "cuda" if _is_on_gpu(q) else "cpu"
    statements = statements_of(scale, dropout, lengths is not None)
    kernel = kernel_of(source_of(pattern), spell_params(params), statements, engine, q.shape[3], v.shape[3], dtype, target,
                       shape_of(q.shape, k.shape, heads_first(layout)))  # fmt: skip
    if return_lse and kernel.lse != "rows":
        raise ArgumentError("return_lse: there is no LSE of the rows: combine sum and mean have one per branch, 'weights sigmoid' none")
    out, lse = attend(kernel, q, k, v, heads_first(layout), given, offset, seed, threads)
    return (out, lse) if return_lse else out


def _is_on_gpu(array: Any) -> bool:
    return jax.default_backend() == "gpu" if is_traced(array) else is_of_xla(array)


@functools.lru_cache(maxsize=64)
def _on_the_host(kernel: Kernel) -> Kernel:
    return Kernel(kernel._engine, kernel._facts, {**kernel._request, "target": "cpu"})


def attend(kernel: Kernel, q: Any, k: Any, v: Any, heads_first: bool, inputs: Mapping[str, Any] | None, offset: Any, seed: Any,
           threads: int) -> tuple[Any, Any]:  # fmt: skip
    """O and the LSE that the kernel's pattern has, of JAX's arrays."""
    if native.why_not() and kernel.target.startswith("sm_"):
        kernel = _on_the_host(kernel)  # Python gets arrays there
    given, wanted = inputs or {}, kernel.inputs
    for name in given:
        if name not in wanted:
            raise ArgumentError(f"{kernel.name} has no input '{name}'")
    for name in wanted:
        if name not in given:
            raise ArgumentError(f"the input '{name}' is missing")
    if offset is not None and not hasattr(offset, "__index__"):
        raise ArgumentError("offset is not one number, and XLA's calls have one for all batch entries")
    arrays = tuple(jnp.asarray(given[name], _JAX_TYPES[kind]) for name, kind in wanted.items())
    how = _How(_named(kernel), heads_first, offset, threads, tuple(wanted), tuple(kind == "f32" for kind in wanted.values()),
               kernel.lse, kernel.branches)  # fmt: skip
    return cast("tuple[Any, Any]", _attention(how, q, k, v, arrays, _seed_of(seed) if kernel.drops else None))


def vjp(kernel: Kernel, q: Any, k: Any, v: Any, heads_first: bool, inputs: Mapping[str, Any] | None, offset: Any, seed: Any,
        threads: int) -> tuple[Any, Callable[..., Gradients]]:  # fmt: skip
    """O, and the function that makes gradients, as `Kernel.vjp` has them."""
    given = dict(inputs or {})
    names = [name for name, kind in kernel.inputs.items() if kind == "f32" and name in given]

    def run(q: Any, k: Any, v: Any, *real: Any) -> tuple[Any, Any]:
        return attend(kernel, q, k, v, heads_first, {**given, **dict(zip(names, real))}, offset, seed, threads)

    (out, lse), transposed = jax.vjp(run, q, k, v, *(jnp.asarray(given[name], jnp.float32) for name in names))

    def pullback(d_out: Any, d_lse: Any = None) -> Gradients:
        of_lse = jnp.zeros_like(lse) if d_lse is None else jnp.asarray(d_lse, jnp.float32)
        of_q, of_k, of_v, *rest = transposed((jnp.asarray(d_out, out.dtype), of_lse))
        return Gradients(of_q, of_k, of_v, dict(zip(names, rest)))

    return out, pullback


_JAX_TYPES = {"i32": jnp.int32, "u8": jnp.uint8, "f32": jnp.float32}
