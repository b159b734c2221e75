"""Compiling a pattern, and running what comes of it."""

from __future__ import annotations

import functools
import warnings
from array import array as numbers_of
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from . import _arrays, _weft
from ._sources import PatternSource, Source, add_places, source_of
from ._words import dtype_name, spell_params
from .errors import ArgumentError, PatternError, PatternWarning

__all__ = ["Engine", "Gradients", "Kernel", "compile", "default_engine"]


class Engine(_weft.Engine):
    """Kernel store, compilers and threads: one is enough for a process, see `default_engine`.

    Keywords, all optional: `cache_dir` (kernel store), `no_cache`, `no_compile`, `llvm` and `nvrtc` (paths of the
    compilers), `bundles` (paths of kernels compiled ahead of time), `bundle_key`, `record`, `threads` (of a launch; 0:
    one per core), `deadline_ms` and `memory_bytes` (of one CUDA compilation), `cache_bytes`, `read_only_caches`,
    `wait_ms`, `most_kernels`. What they mean stands in `weft/weft.h`. What takes long is told to
    `logging.getLogger("weft")`.
    """


@functools.lru_cache(maxsize=None)
def default_engine() -> Engine:
    """The engine of whoever names none; made when it is first asked for."""
    return Engine()


class Gradients(NamedTuple):
    """Of `sum(d_out * out) + sum(d_lse * lse)`."""

    q: Any
    k: Any
    v: Any
    inputs: dict[str, Any]
    """By name, of the f32 inputs of the pattern."""


class _Shape(NamedTuple):
    """Of one launch, whatever the layout."""

    batch: int
    n_q: int
    n_k: int
    heads: int
    dim_v: int

    def rows(self, heads_first: bool) -> tuple[int, ...]:
        middle = (self.heads, self.n_q) if heads_first else (self.n_q, self.heads)
        return (self.batch, *middle, self.dim_v)

    def lse(self) -> tuple[int, ...]:
        return (self.batch, self.heads, self.n_q)


class _Launch(NamedTuple):
    """Arguments that forward and backward share."""

    q: _weft.View
    k: _weft.View
    v: _weft.View
    shape: _Shape
    options: dict[str, Any]


def _integers(value: Any, name: str) -> list[int]:
    if value is None:
        return []
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return [value.__index__()]
    try:
        return [item.__index__() for item in value]
    except (TypeError, AttributeError):
        raise TypeError(f"{name} is a {type(value).__name__}; expected an int or a sequence of ints") from None


def _heads_first(layout: str) -> bool:
    if layout not in ("bnhd", "bhnd"):
        raise ArgumentError(f"layout is '{layout}'; expected 'bnhd' ([batch, tokens, heads, dim]) or 'bhnd'")
    return layout == "bhnd"


def _shape_of(q: _weft.View, k: _weft.View, v: _weft.View, heads_first: bool) -> _Shape:
    for name, seen in (("q", q), ("k", k), ("v", v)):
        if len(seen.shape) != 4:
            axes = "[B, H, n, d]" if heads_first else "[B, n, H, d]"
            raise ArgumentError(f"{name} has {len(seen.shape)} axes: {list(seen.shape)}; expected 4: {axes}")
        if seen.dtype != q.dtype:
            raise ArgumentError(f"{name} is {seen.dtype}; expected {q.dtype}, as q")
        if seen.device != q.device:
            raise ArgumentError(f"{name} is on {seen.device}; expected {q.device}, as q")
    tokens, heads = (2, 1) if heads_first else (1, 2)
    return _Shape(q.shape[0], q.shape[tokens], k.shape[tokens], q.shape[heads], v.shape[3])


class Kernel:
    """A pattern compiled for one target, head dim and dtype; any lengths, batch and strides. Made by `weft.compile`.
    Threads may share it."""

    def __init__(self, engine: Engine, facts: _weft.Pattern, request: Mapping[str, Any]) -> None:
        self._engine = engine
        self._facts = facts
        self._request = dict(request)
        self._drops = "\n  dropout " in facts.text
        self._core = _weft.Kernel(engine, _weft.Request(**self._request))

    @property
    def text(self) -> str:
        """The pattern, with every default written out."""
        return self._core.text

    @property
    def plan(self) -> str:
        """Every decision, as text; empty on the interpreter."""
        return self._core.plan

    @property
    def source(self) -> str:
        """What was compiled: LLVM IR or CUDA C++; empty on the interpreter."""
        return self._core.source

    @property
    def target(self) -> str:
        """Such as `cpu:x86-64-v4`."""
        return self._core.target

    @property
    def origin(self) -> str:
        """`memory`, `disk`, `bundle` or `compiled`."""
        return self._core.origin

    @property
    def compile_ms(self) -> float:
        """Milliseconds that compiling took; 0 where nothing was compiled."""
        return self._core.compile_ms

    def workspace(self, batch: int, n_q: int, n_k: int, heads: int, kv_heads: int, threads: int = 0) -> int:
        """Bytes of scratch that a launch of these sizes uses."""
        return self._core.workspace(batch, n_q, n_k, heads, kv_heads, threads)

    def __repr__(self) -> str:
        return f"<weft.Kernel {self._facts.name} for {self.target}>"

    @functools.cached_property
    def _gradient(self) -> _weft.Kernel:
        return _weft.Kernel(self._engine, _weft.Request(**{**self._request, "gradient": True, "branch_lse": False}))

    @functools.cached_property
    def _with_branch_lse(self) -> _weft.Kernel:
        return _weft.Kernel(self._engine, _weft.Request(**{**self._request, "branch_lse": True}))

    def seed_of(self, like: Any, seed: int | None) -> int:
        """What weights are dropped by: drawn where none is given, and only where it is needed."""
        if seed is not None:
            return seed
        return _arrays.draw_seed(like) if self._drops else 0

    def _input_views(self, inputs: Mapping[str, Any] | None, stream: int | None) -> dict[str, _weft.View]:
        wanted = {name: dtype for name, dtype, _ in self._facts.inputs}
        out = {}
        for name, value in (inputs or {}).items():
            if isinstance(value, (list, tuple)) and wanted.get(name) == "i32":
                value = numbers_of("i", value)
            seen = _arrays.input_view(value, f"the input '{name}'", stream)
            expected = wanted.get(name, seen.dtype)
            if seen.dtype != expected and not (expected == "u8" and seen.dtype == "bool"):
                raise ArgumentError(f"the input '{name}' is {seen.dtype}; expected {expected}")
            out[name] = seen
        return out

    def _launch(self, q: Any, k: Any, v: Any, layout: str, inputs: Mapping[str, Any] | None, offset: Any, cu_q: Any,
                cu_k: Any, seed: int | None, threads: int, stream: Any) -> _Launch:  # fmt: skip
        heads_first = _heads_first(layout)
        address = _arrays.current_stream(q) if stream is None else _arrays.stream_address(stream)
        views = [_arrays.input_view(x, name, address) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
        shape = _shape_of(views[0], views[1], views[2], heads_first)
        options = {
            "heads_first": heads_first,
            "inputs": self._input_views(inputs, address),
            "offset": _integers(offset, "offset"),
            "cu_q": _integers(cu_q, "cu_q"),
            "cu_k": _integers(cu_k, "cu_k"),
            "dropout_seed": self.seed_of(q, seed) & (2**64 - 1),
            "threads": threads,
            "stream": address or 0,
        }
        return _Launch(views[0], views[1], views[2], shape, options)

    def _no_pairs(self, q: Any, launch: _Launch, out: Any, lse: Any) -> bool:
        """Without rows there is nothing to write, without keys O is 0: the engine takes neither."""
        shape = launch.shape
        if 0 in (shape.batch, shape.n_q, shape.heads):
            return True
        if shape.n_k != 0:
            return False
        if lse is not None and "sink_logit" in self.text:
            raise ArgumentError("k has no keys: with 'sink_logit' the LSE of no keys is not answered")
        for array, value in ((out, 0.0), (lse, float("-inf"))):
            if array is not None:
                array[...] = value
        return True

    def __call__(self, q: Any, k: Any, v: Any, *, layout: str = "bnhd", inputs: Mapping[str, Any] | None = None,
                 offset: int | Sequence[int] | None = None, cu_q: Sequence[int] | None = None,
                 cu_k: Sequence[int] | None = None, seed: int | None = None, return_lse: bool = False, out: Any = None,
                 threads: int = 0, stream: Any = None) -> Any:  # fmt: skip
        """Attention of these arrays: see `weft.attention`."""
        if return_lse and self._facts.lse != "rows":
            why = "'weights sigmoid' has none" if self._facts.lse == "none" else "combine sum and mean have one per branch"
            raise ArgumentError(f"return_lse: there is no LSE of the rows, {why}")
        if _arrays.records_gradients(q, k, v, *(inputs or {}).values()):
            from .torch.autograd import attention

            if out is not None:
                raise ArgumentError("out is given, and gradients are recorded: they need an O of their own")
            options = {"layout": layout, "offset": offset, "cu_q": cu_q, "cu_k": cu_k, "seed": seed, "threads": threads,
                       "stream": stream}  # fmt: skip
            return attention(self, q, k, v, inputs or {}, options, return_lse)
        launch = self._launch(q, k, v, layout, inputs, offset, cu_q, cu_k, seed, threads, stream)
        result, lse = self._forward(q, launch, out, self._core, "rows" if return_lse else "none")
        return (result, lse) if return_lse else result

    def _forward(self, q: Any, launch: _Launch, out: Any, core: _weft.Kernel, lse_kind: str) -> tuple[Any, Any]:
        """O, and the LSE of that kind or None."""
        shape, heads_first = launch.shape, launch.options["heads_first"]
        dtype = launch.q.dtype
        if out is None:
            out = _arrays.empty(q, shape.rows(heads_first), dtype, same=True)
            out_view = _arrays.view(out, "out")
        else:
            out_view = _arrays.output_view(out, "out", shape.rows(heads_first), dtype, launch.q.device)
        lse = None
        if lse_kind != "none":
            extents = shape.lse() if lse_kind == "rows" else (self._facts.branches, *shape.lse())
            lse = _arrays.empty(q, extents, "f32", same=False)
        if self._no_pairs(q, launch, out, lse):
            return out, lse
        lse_view = None if lse is None else _arrays.view(lse, "lse")
        which = {"rows": "lse", "branches": "branch_lse"}.get(lse_kind)
        saved: dict[str, Any] = {which: lse_view} if which else {}
        _weft.run(core, launch.q, launch.k, launch.v, out_view, **saved, **launch.options)
        return out, lse

    def vjp(self, q: Any, k: Any, v: Any, *, layout: str = "bnhd", inputs: Mapping[str, Any] | None = None,
            offset: int | Sequence[int] | None = None, cu_q: Sequence[int] | None = None,
            cu_k: Sequence[int] | None = None, seed: int | None = None, threads: int = 0,
            stream: Any = None) -> tuple[Any, Callable[..., Gradients]]:  # fmt: skip
        """Attention, and the function that makes its gradients: see `weft.vjp`."""
        options = {"layout": layout, "inputs": inputs, "offset": offset, "cu_q": cu_q, "cu_k": cu_k, "threads": threads,
                   "stream": stream, "seed": self.seed_of(q, seed)}  # fmt: skip
        out, lse = self.forward((q, k, v), options)

        def pullback(d_out: Any, d_lse: Any = None) -> Gradients:
            """`d_out` as O; `d_lse`, if any, as the LSE: [B, H, n_q] f32, with `sum` and `mean` [branches, B, H, n_q]."""
            return self.backward((q, k, v), options, out, lse, d_out, d_lse)

        return out, pullback

    def forward(self, arrays: tuple[Any, Any, Any], options: Mapping[str, Any]) -> tuple[Any, Any]:
        """O, and what the backward pass wants to know besides: an LSE or None. `options` are keywords of `vjp`, of which the
        seed must be said for `backward` to draw the same."""
        kind = self._facts.lse
        launch = self._launch(*arrays, **options)
        return self._forward(arrays[0], launch, None, self._with_branch_lse if kind == "branches" else self._core, kind)

    def backward(self, arrays: tuple[Any, Any, Any], options: Mapping[str, Any], out: Any, lse: Any, d_out: Any,
                 d_lse: Any = None, wanted: Collection[str] | None = None) -> Gradients:  # fmt: skip
        """Gradients, from what `forward` returned for the same arrays and options. `wanted`: some of `q`, `k`, `v` and names of
        inputs; the others are None."""
        launch = self._launch(*arrays, **options)
        inputs = options["inputs"] or {}
        of = dict(zip("qkv", zip(arrays, (launch.q, launch.k, launch.v))))
        floats = [name for name, dtype, _ in self._facts.inputs if dtype == "f32" and name in inputs]
        places = {("", name): of[name] for name in "qkv"}
        places |= {("input", name): (inputs[name], launch.options["inputs"][name]) for name in floats}
        places = {key: place for key, place in places.items() if wanted is None or key[1] in wanted}
        empty = 0 in (launch.shape.batch, launch.shape.n_q, launch.shape.heads, launch.shape.n_k)
        made = {
            key: _arrays.zeros(array, seen.shape, seen.dtype) if empty else _arrays.empty(array, seen.shape, seen.dtype, same=True)
            for key, (array, seen) in places.items()
        }
        if made and not empty:
            self._run_backward(launch, made, out, lse, d_out, d_lse)
        return Gradients(made.get(("", "q")), made.get(("", "k")), made.get(("", "v")),
                         {name: made[kind, name] for kind, name in made if kind == "input"})  # fmt: skip

    def _run_backward(self, launch: _Launch, made: Mapping[tuple[str, str], Any], out: Any, lse: Any, d_out: Any,
                      d_lse: Any) -> None:  # fmt: skip
        seen = _arrays.input_view(d_out, "d_out", launch.options["stream"] or None)
        expected = launch.shape.rows(launch.options["heads_first"])
        if seen.shape != expected:
            raise ArgumentError(f"d_out has the shape {list(seen.shape)}; expected {list(expected)}, as out")
        given: dict[str, Any] = {"d_out": seen}
        if lse is not None:
            given["branch_lse" if self._facts.lse == "branches" else "lse"] = _arrays.view(lse, "lse")
        if d_lse is not None:
            given["d_lse"] = _arrays.input_view(d_lse, "d_lse")
        written = {key: _arrays.view(array, "a gradient") for key, array in made.items()}
        given |= {f"d{name}": place for (kind, name), place in written.items() if not kind}
        _weft.run(self._gradient, launch.q, launch.k, launch.v, _arrays.view(out, "out"), **given, **launch.options,
                  d_inputs={name: place for (kind, name), place in written.items() if kind})  # fmt: skip


def compile_source(source: Source, params: tuple[tuple[str, str], ...], engine: Engine | None,
                   request: Mapping[str, Any]) -> Kernel:  # fmt: skip
    request = {
        **request,
        "text": source.text,
        "pattern": source.pattern,
        "source_name": source.name,
        "params": [f"{name}={value}" for name, value in params],
    }
    read = {key: request[key] for key in ("text", "pattern", "source_name", "params")}
    try:
        facts = _weft.Pattern(_weft.Request(**read))
        made = Kernel(engine or default_engine(), facts, request)
    except PatternError as error:
        add_places(error, source)
        raise
    if facts.warnings:
        warnings.warn("\n" + facts.warnings_report.rstrip(), PatternWarning, stacklevel=3)
    return made


def compile(source: PatternSource, *, pattern: str | None = None, heads: int | None = None,
            kv_heads: int | None = None, dim: int | None = None, dim_v: int | None = None, dtype: Any = None,
            target: str | None = None, engine: Engine | None = None, **params: Any) -> Kernel:  # fmt: skip
    """Compiles a pattern, or takes its kernel from the store.

    `source`: a name of the library (`"longnet"`), text of the language, a path, a `weft.Set` or a `weft.Pattern`;
    `pattern` chooses where a text holds several. `dim` (of q and k), `dim_v` (of v, `dim` where it is left out) and
    `dtype` (`"f32"`, `numpy.float16`, …) are compiled in and must be said where the text does not; heads may stay open.
    `target`: `"cpu"` where it is left out, `"interpreter"`, `"cuda"`, `"sm_61"`, …. Further keywords are the
    pattern's parameters.

    Raises `PatternError` for what is wrong with the text, `ArgumentError` for options that do not fit it,
    `UnavailableError` where a compiler is missing.

    >>> kernel = compile("window", width=4, dim=8, dtype="f32")
    >>> kernel.target.partition(":")[0]
    'cpu'
    """
    request = {
        "heads": heads or 0,
        "kv_heads": kv_heads or 0,
        "dim": dim or 0,
        "dim_v": dim_v or 0,
        "dtype": dtype_name(dtype),
        "target": target or "",
    }
    return compile_source(source_of(source, pattern), spell_params(params), engine, request)
