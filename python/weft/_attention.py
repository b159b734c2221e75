"""Attention in one call."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _weft
from ._sources import PatternSource, Source, source_of
from ._words import spell, spell_params
from .errors import ArgumentError
from ._kernels import Engine, Gradients, Kernel, compile_source, heads_first
from .patterns import Pattern
from .sets import Set

__all__ = ["attention", "vjp"]

LENGTHS = "lengths_of_the_call"


def with_statements(source: Source, params: tuple[tuple[str, str], ...], statements: tuple[str, ...]) -> Source:
    """The pattern with further statements: a pattern behind it that uses it."""
    name = source.pattern or _weft.Pattern(_weft.Request(source.text, source_name=source.name)).name
    arguments = ", ".join(f"{key}: {value}" for key, value in params)
    own = f"{name}_called"
    lines = (f"use {name}({arguments});", *statements)
    text = f"{source.text}\npattern {own} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    return Source(text, own, source.name, source.places)


@functools.lru_cache(maxsize=256)
def kernel_of(source: Source, params: tuple[tuple[str, str], ...], statements: tuple[str, ...], engine: Engine | None,
              dim: int, dim_v: int, dtype: str, target: str, shape: Sequence[int] = ()) -> Kernel:  # fmt: skip
    """The kernel of a pattern with further statements; `engine`: the default one where it is None. `shape`: see `compile_source`."""
    if statements:
        source, params = with_statements(source, params, statements), ()
    return compile_source(source, params, engine, {"dim": dim, "dim_v": dim_v, "dtype": dtype, "target": target}, shape)


def statements_of(scale: float | None, dropout: float, has_lengths: bool) -> tuple[str, ...]:
    """What a call adds to its pattern; where it has lengths, they are the input `LENGTHS`."""
    out: list[str] = []
    if has_lengths:
        out += [f"input {LENGTHS}: i32[batch];", f"keep lengths({LENGTHS});"]
    if scale is not None:
        out.append(f"scale {spell(float(scale), 'scale')};")
    if dropout:
        if not 0.0 <= dropout < 1.0:
            raise ArgumentError(f"dropout is {dropout}; expected 0 <= dropout < 1")
        out.append(f"dropout {spell(float(dropout), 'dropout')};")
    return tuple(out)


_KERNELS = _weft.Kernels()
"""Those of the last calls: what is looked up here needs no text."""


def shape_of(q: Sequence[int], k: Sequence[int], heads_first: bool) -> Sequence[int]:
    """Batch, n_q, n_k, heads and kv_heads of arrays; nothing of those that no launch takes, which says why."""
    if len(k) != 4:
        return ()
    tokens, heads = (2, 1) if heads_first else (1, 2)
    shape = (q[0], q[tokens], k[tokens], q[heads], k[heads])
    return shape if min(shape) > 0 and shape[3] % shape[4] == 0 else ()


def _prepared(q: Any, k: Any, v: Any, heads_first: bool, packed: bool, pattern: PatternSource, scale: float | None, dropout: float,
              inputs: Mapping[str, Any] | None, lengths: Any, target: str | None, engine: Engine | None,
              params: Mapping[str, Any]) -> tuple[Kernel, Mapping[str, Any] | None]:  # fmt: skip
    """The kernel that fits these arrays, and the inputs with what the call adds."""
    if lengths is not None:
        inputs = {**(inputs or {}), LENGTHS: lengths}
    said = (pattern, scale, dropout, lengths is not None, target, engine, params)
    found = _KERNELS.find(q, v, *said)
    if found is not None:
        return found, inputs
    of_q, of_v = _weft.View(q, "q"), _weft.View(v, "v")
    for name, seen in (("q", of_q), ("v", of_v)):
        if len(seen.shape) != 4:
            raise ArgumentError(f"{name} has {len(seen.shape)} axes: {list(seen.shape)}; expected 4")
        if seen.dtype not in ("f32", "f16", "bf16", "f64"):
            raise ArgumentError(f"{name} is {seen.dtype}; expected f32, f16, bf16 or f64")
    if target is None:
        target = "interpreter" if of_q.dtype == "f64" else of_q.device
    statements = statements_of(scale, dropout, lengths is not None)
    shape = () if packed else shape_of(of_q.shape, _weft.View(k, "k").shape, heads_first)
    kernel = kernel_of(source_of(pattern), spell_params(params), statements, engine, of_q.shape[3], of_v.shape[3], of_q.dtype, target, shape)
    if isinstance(pattern, (Set, Pattern)) or (isinstance(pattern, str) and not pattern.endswith(".weft")):  # files may change
        _KERNELS.keep(of_q, of_v, *said, kernel)
    return kernel, inputs


def attention(q: Any, k: Any, v: Any, pattern: PatternSource = "dense", *, layout: str = "bnhd",
              scale: float | None = None, dropout: float = 0.0, seed: Any = None,
              inputs: Mapping[str, Any] | None = None, lengths: Any = None,
              offset: int | Sequence[int] | None = None, cu_q: Sequence[int] | None = None,
              cu_k: Sequence[int] | None = None, max_q: int | None = None, max_k: int | None = None,
              return_lse: bool = False, out: Any = None, target: str | None = None, threads: int = 0,
              stream: Any = None, engine: Engine | None = None,
              **params: Any) -> Any:  # fmt: skip
    """Attention of the pairs that a pattern keeps. The kernel is compiled at the first call and found at the next ones,
    whatever their lengths, batch and heads.

    `q` [B, n_q, H, d], `k` [B, n_k, H_kv, d], `v` [B, n_k, H_kv, d_v] are arrays of one library, dtype (f32, f16, bf16;
    f64 runs on the interpreter, slowly) and device; with `layout="bhnd"` they are [B, H, n, d]. H is a multiple of H_kv.
    They are read in place; one that is not dense along its last axis is copied. Returns O [B, n_q, H, d_v] as an array
    of q's library, or `(O, LSE)` with `return_lse`: LSE [B, H, n_q] f32, the natural logarithm of each row's sum.

    `pattern`: a name of the library, text, a path, a `weft.Set` or a `weft.Pattern`; `params` are its parameters.
    `scale`: factor of the dot product, 1/sqrt(d) where it is left out. `dropout`: probability that a weight is dropped,
    drawn by `seed` (left out: by PyTorch's generator for its tensors, else by Python's `random`). `inputs`: the pattern's inputs by name. `lengths` [B]:
    tokens of each batch entry; what is behind them is neither read nor attended. `offset`: position of the first query,
    n_k - n_q where it is left out, one for all or one per batch entry. `cu_q`, `cu_k`: borders of packed sequences;
    with `max_q` and `max_k`, the most tokens that one may have, they are i32 arrays on q's device, which kernels read
    when they run, those of gradients, too: nothing waits for them, and a CUDA graph is replayed with what stands there
    then. (Where keys are chosen or passed over by lists, as with `document`, and for gradients of inputs, they are read by
    the call.)
    `out`: where to write O. `threads`: 0 is one per core.

    Raises `PatternError` for what is wrong with the pattern, `ArgumentError` for arrays that do not fit it or each
    other, `TypeError` for what is no array.

    >>> import numpy as np
    >>> x = np.ones((1, 6, 2, 8), np.float32)
    >>> attention(x, x, x, "window", width=3).shape
    (1, 6, 2, 8)
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        way, kernel = "operator", None
    else:
        way, kernel = _KERNELS.look(q, k, v, inputs, pattern, scale, dropout, lengths is not None, target, engine, params)
    if way == "operator":
        from .torch.calls import attention as by_operator

        for name, value in (("out", out), ("engine", engine), ("stream", stream)):
            if value is not None:
                raise ArgumentError(f"{name} is given, and PyTorch's compiler or a transform sees this call as an operator, "
                                    f"which has no {name}")  # fmt: skip
        return by_operator(q, k, v, pattern, return_lse, layout=layout, scale=scale, dropout=dropout, seed=seed, inputs=inputs,
                           lengths=lengths, offset=offset, cu_q=cu_q, cu_k=cu_k, max_q=max_q, max_k=max_k, target=target,
                           threads=threads, **params)  # fmt: skip
    if way == "autocast":
        from .torch.calls import autocast

        q, k, v = autocast(q, k, v)
        way = _weft.way_of_launch(q, k, v, inputs)
    if kernel is None:
        kernel, inputs = _prepared(q, k, v, heads_first(layout), cu_q is not None, pattern, scale, dropout, inputs, lengths, target, engine, params)
    elif lengths is not None:
        inputs = {**(inputs or {}), LENGTHS: lengths}
    cu_q, cu_k = kernel.borders_of_call(cu_q, cu_k, max_q, max_k)
    return kernel.launch(way, q, k, v, heads_first(layout), inputs, offset, cu_q, cu_k, seed, return_lse, out, threads, stream)


def vjp(q: Any, k: Any, v: Any, pattern: PatternSource = "dense", *, layout: str = "bnhd",
        scale: float | None = None, dropout: float = 0.0, seed: Any = None,
        inputs: Mapping[str, Any] | None = None, lengths: Any = None, offset: int | Sequence[int] | None = None,
        cu_q: Sequence[int] | None = None, cu_k: Sequence[int] | None = None, max_q: int | None = None,
        max_k: int | None = None, target: str | None = None, threads: int = 0, stream: Any = None, engine: Engine | None = None,
        **params: Any) -> tuple[Any, Callable[..., Gradients]]:  # fmt: skip
    """O as `attention` computes it, and `pullback(d_out, d_lse=None)`, which gives the gradients of
    `sum(d_out * out) + sum(d_lse * lse)` as `Gradients(q, k, v, inputs)`: arrays of the shapes and dtypes of what they are
    the gradients of. The arrays must not be changed in between.

    >>> import numpy as np
    >>> x = np.ones((1, 6, 2, 8), np.float32)
    >>> out, pullback = vjp(x, x, x, "causal")
    >>> pullback(np.ones_like(out)).q.shape
    (1, 6, 2, 8)
    """
    kernel, inputs = _prepared(q, k, v, heads_first(layout), cu_q is not None, pattern, scale, dropout, inputs, lengths, target, engine, params)
    return kernel.vjp(q, k, v, layout=layout, inputs=inputs, offset=offset, cu_q=cu_q, cu_k=cu_k, max_q=max_q, max_k=max_k,
                      seed=seed, threads=threads, stream=stream)  # fmt: skip
