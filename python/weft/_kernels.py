"""Compiling a pattern, and running what comes of it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from . import _arrays, _weft
from ._sources import PatternSource, Source, add_places, source_of
from ._words import bound, spell_params
from .errors import ArgumentError, PatternError, PatternWarning
from .explanation import Explanation, RingSaid, explained
from .picture import Picture

__all__ = ["ChosenList", "Engine", "Gradients", "Kernel", "compile", "default_engine"]


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


@functools.lru_cache(maxsize=None)
def _autograd() -> Any:
    """Imported where tensors record gradients, whose library is there then."""
    from .torch import autograd

    return autograd


def _xla() -> Any:
    """Imported where an array is JAX's."""
    from . import jax

    return jax


NO_LSE, AN_LSE, KEPT_LSE = range(3)
"""What `_weft.forward` gives beside O: None, an array, or what only `_weft.backward` reads, which costs less."""


class Gradients(NamedTuple):
    """Of `sum(d_out * out) + sum(d_lse * lse)`."""

    q: Any
    k: Any
    v: Any
    inputs: dict[str, Any]
    """By name, of the f32 inputs of the pattern."""


class ChosenList(NamedTuple):
    """What a `random` or a `top` chose."""

    set: str
    """As the language has it."""
    block: int
    """Tokens of a block, of rows and of keys."""
    first_row: int
    """Number of the block of rows that stands first."""
    blocks: Any
    """[batch entries, heads, blocks of rows, places] i32: numbers of blocks of keys, rising. `2**31 - 1` stands behind those
    of a row that has fewer than there are places."""


def heads_first(layout: str) -> bool:
    """Is it `bhnd`? ArgumentError for what is neither."""
    if layout == "bnhd":
        return False
    if layout != "bhnd":
        raise ArgumentError(f"layout is '{layout}'; expected 'bnhd' ([batch, tokens, heads, dim]) or 'bhnd'")
    return True


class Kernel:
    """A pattern compiled for one target, head dim and dtype; any lengths, batch and strides. Made by `weft.compile`.
    Threads may share it."""

    def __init__(self, engine: Engine, facts: _weft.Pattern, request: Mapping[str, Any], shape: Sequence[int] = ()) -> None:
        self._engine = engine
        self._facts = facts
        self._request: dict[str, Any] = dict(request)
        self._core = _weft.Kernel(engine, _weft.Request(**self._request), shape)

    @property
    def name(self) -> str:
        """Of the pattern."""
        return self._facts.name

    @property
    def lse(self) -> str:
        """Of what there is one: `rows`, `branches` or `none`."""
        return self._facts.lse

    @property
    def branches(self) -> int:
        return self._facts.branches

    @property
    def inputs(self) -> dict[str, str]:
        """Dtypes of the pattern's inputs by name: `i32`, `u8` or `f32`."""
        return {name: dtype for name, dtype, _ in self._facts.inputs}

    @property
    def drops(self) -> bool:
        """Are weights dropped, so that a launch needs a seed?"""
        return self._core.drops

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

    def prepare(self, batch: int, n_q: int, n_k: int, heads: int, kv_heads: int | None = None, *, sizes_in_memory: bool = False) -> float:
        """Makes now what the first launch of these sizes would make: what launches of few queries run, and on a GPU tables
        for so many heads. `kv_heads`: as many as `heads` where they are left out. `sizes_in_memory`: borders of packed
        sequences, or lengths of pages, will stand in the GPU's memory, with these the most. Returns the milliseconds that
        compiling took.

        >>> compile("causal", dim=8, dtype="f32").prepare(1, 1, 64, heads=2) >= 0
        True
        """
        return self._core.prepare(batch, n_q, n_k, heads, heads if kv_heads is None else kv_heads, sizes_in_memory)

    def lists(self, q: Any, k: Any, v: Any, *, layout: str = "bnhd", inputs: Mapping[str, Any] | None = None,
              offset: int | Sequence[int] | None = None, threads: int = 0, stream: Any = None) -> list[ChosenList]:  # fmt: skip
        """Which blocks of keys each `random` and `top` of the pattern chooses for these arrays; none where it has neither.

        >>> import numpy as np
        >>> x = np.random.default_rng(0).standard_normal((1, 64, 1, 16), dtype=np.float32)
        >>> (one,) = compile("pattern p { branch blocks(16, random(2)); }", dim=16, dtype="f32").lists(x, x, x)
        >>> one.set, one.block, one.blocks.shape
        ('blocks(16, random(2, seed: 0))', 16, (1, 1, 4, 2))
        """
        found = _weft.chosen(self._core, q, k, v, heads_first(layout), inputs, offset, threads, stream)
        return [ChosenList(*one) for one in found]

    def draw(self, tokens: int | None = 64, head: int = 0, *, keys: int | None = None, inputs: Mapping[str, Any] | None = None) -> Picture:
        """Which pairs are kept of so many queries (None: as many as show the pattern), and as many keys where `keys` is left out. Inputs that are not given are made
        up: documents of an eighth of the tokens, whole lengths."""
        return Picture(self._request_text, tokens, keys, head, inputs)

    def explain(self, tokens: int | None = None, heads: int | None = None, batch: int = 1, *, keys: int | None = None,
                kv_heads: int | None = None, gradient: bool = False, layout: str = "bnhd",
                ring: RingSaid | None = None, ring_memory: int = 0,
                inputs: Mapping[str, Any] | None = None) -> Explanation:  # fmt: skip
        """What it will do at these sizes: see `weft.explain`. Heads are the kernel's where it was compiled for a number of
        them."""
        request = dict(self._request)
        for name, value in (("heads", heads), ("kv_heads", kv_heads)):
            if value is not None and request[name] not in (0, value):
                raise ArgumentError(f"{name} is {value}; the kernel was compiled for {request[name]}")
            request[name] = value or request[name]
        return explained(self._engine, {**request, "gradient": gradient}, batch=batch, tokens=tokens, keys=keys, layout=layout,
                         ring=ring, ring_memory=ring_memory, inputs=inputs)  # fmt: skip

    def _repr_svg_(self) -> str:
        return self.draw(None)._repr_svg_()

    @property
    def _request_text(self) -> dict[str, Any]:
        """What a text is read with, without what is compiled."""
        return {name: self._request[name] for name in ("text", "pattern", "source_name", "params", "heads", "kv_heads")}

    def __repr__(self) -> str:
        return f"<weft.Kernel {self._facts.name} for {self.target}>"

    @functools.cached_property
    def _gradient(self) -> _weft.Kernel:
        return _weft.Kernel(self._engine, _weft.Request(**dict(self._request, gradient=True, branch_lse=False)), ())

    @functools.cached_property
    def _with_branch_lse(self) -> _weft.Kernel:
        return _weft.Kernel(self._engine, _weft.Request(**dict(self._request, branch_lse=True)), ())

    @functools.cached_property
    def recording(self) -> _weft.Kernel:
        """What the forward pass of a backward pass runs."""
        return self._with_branch_lse if self._facts.lse == "branches" else self._core

    def seed_of(self, like: Any, seed: Any) -> Any:
        """What weights are dropped by: drawn where none is given, and only where it is needed."""
        if seed is not None:
            return seed
        return _arrays.draw_seed(like) if self._core.drops else 0

    def __call__(self, q: Any, k: Any, v: Any, *, layout: str = "bnhd", inputs: Mapping[str, Any] | None = None,
                 offset: int | Sequence[int] | None = None, cu_q: Sequence[int] | None = None,
                 cu_k: Sequence[int] | None = None, max_q: int | None = None, max_k: int | None = None, seed: Any = None,
                 return_lse: bool = False, out: Any = None, threads: int = 0, stream: Any = None) -> Any:  # fmt: skip
        """Attention of these arrays: see `weft.attention`."""
        cu_q, cu_k = self.borders_of_call(cu_q, cu_k, max_q, max_k)
        way = _weft.way_of_launch(q, k, v, inputs)
        return self.launch(way, q, k, v, heads_first(layout), inputs, offset, cu_q, cu_k, seed, return_lse, out, threads, stream)

    def launch(self, way: str, q: Any, k: Any, v: Any, heads_first: bool, inputs: Mapping[str, Any] | None, offset: int | Sequence[int] | None,
               cu_q: Sequence[int] | None, cu_k: Sequence[int] | None, seed: Any, return_lse: bool, out: Any, threads: int,
               stream: Any) -> Any:  # fmt: skip
        """A call, by position, as names cost microseconds. `way`: `launch`, `record` where gradients are, or `xla`."""
        if return_lse and self._facts.lse != "rows":
            why = "'weights sigmoid' has none" if self._facts.lse == "none" else "combine sum and mean have one per branch"
            raise ArgumentError(f"return_lse: there is no LSE of the rows, {why}")
        if way == "xla":
            self._check_xla(cu_q=cu_q, cu_k=cu_k, out=out, stream=stream)
            made = _xla().attend(self, q, k, v, heads_first, inputs, offset, self.seed_of(q, seed), threads)
            return made if return_lse else made[0]
        if way == "record":
            if out is not None:
                raise ArgumentError("out is given, and gradients are recorded: they need an O of their own")
            if seed is None:
                seed = self.seed_of(q, seed)  # that the backward pass draws the same
            of_inputs = inputs is not None and any(getattr(x, "requires_grad", False) for x in inputs.values())
            cu_q, cu_k = self.borders_of_launch(cu_q, cu_k, of_inputs)
            return _autograd().attention(self, q, k, v, heads_first, inputs, (offset, cu_q, cu_k, seed, threads, stream), return_lse)
        result, lse = _weft.forward(self._core, q, k, v, out, AN_LSE if return_lse else NO_LSE, heads_first, inputs, offset, cu_q, cu_k, seed, threads, stream)
        return (result, lse) if return_lse else result

    @functools.cached_property
    def _makes_lists(self) -> bool:
        return "\nstep fill " in self._core.plan

    def borders_of_launch(self, cu_q: Any, cu_k: Any, of_inputs: bool) -> tuple[Any, Any]:
        """Borders as kernels take them. Lists are made, and gradients of inputs summed up, over sequences that are known
        before: for such they are read now, and waited for."""
        if isinstance(cu_q, _arrays.Borders) and (of_inputs or self._makes_lists):
            return cu_q.at.tolist(), cu_k.at.tolist()
        return cu_q, cu_k

    def borders_of_call(self, cu_q: Any, cu_k: Any, max_q: int | None, max_k: int | None, of_inputs: bool = False) -> tuple[Any, Any]:
        """… of a call with these arguments, which makes gradients of inputs where it says so."""
        if max_q is None and max_k is None:
            return cu_q, cu_k
        return self.borders_of_launch(_arrays.borders(cu_q, max_q, "cu_q"), _arrays.borders(cu_k, max_k, "cu_k"), of_inputs)

    def vjp(self, q: Any, k: Any, v: Any, *, layout: str = "bnhd", inputs: Mapping[str, Any] | None = None,
            offset: int | Sequence[int] | None = None, cu_q: Sequence[int] | None = None,
            cu_k: Sequence[int] | None = None, max_q: int | None = None, max_k: int | None = None, seed: Any = None,
            threads: int = 0, stream: Any = None) -> tuple[Any, Callable[..., Gradients]]:  # fmt: skip
        """Attention, and the function that makes its gradients: see `weft.vjp`."""
        cu_q, cu_k = self.borders_of_call(cu_q, cu_k, max_q, max_k, "f32" in self.inputs.values())
        if _weft.way_of_launch(q, k, v, inputs) == "xla":
            self._check_xla(cu_q=cu_q, cu_k=cu_k, stream=stream)
            return _xla().vjp(self, q, k, v, heads_first(layout), inputs, offset, self.seed_of(q, seed), threads)
        options = (heads_first(layout), inputs, offset, cu_q, cu_k, self.seed_of(q, seed), threads, stream)
        out, lse = self.forward(q, k, v, *options)

        def pullback(d_out: Any, d_lse: Any = None) -> Gradients:
            """`d_out` as O; `d_lse`, if any, as the LSE: [B, H, n_q] f32, with `sum` and `mean` [branches, B, H, n_q]."""
            return self.backward(q, k, v, out, lse, d_out, d_lse, None, *options)

        return out, pullback

    def _check_xla(self, **given: Any) -> None:
        for name, value in given.items():
            if value is not None:
                raise ArgumentError(f"{name} is given, and arrays of JAX on a GPU are XLA's, which has no {name}")

    def forward(self, q: Any, k: Any, v: Any, *options: Any) -> tuple[Any, Any]:
        """O, and what the backward pass wants to know besides: an LSE or None. `options`: the last of `_weft.forward`, of which
        the seed must be said for `backward` to draw the same."""
        return _weft.forward(self.recording, q, k, v, None, AN_LSE, *options)

    def backward(self, q: Any, k: Any, v: Any, out: Any, lse: Any, d_out: Any, d_lse: Any, wanted: Collection[str] | None,
                 *options: Any) -> Gradients:  # fmt: skip
        """Gradients, from what `forward` returned for the same arrays and options. `wanted`: some of `q`, `k`, `v` and names of
        inputs; the others are None."""
        return Gradients(*_weft.backward(self._gradient, q, k, v, out, lse, d_out, d_lse, wanted, *options))


def compile_source(source: Source, params: tuple[tuple[str, str], ...], engine: Engine | None,
                   request: Mapping[str, Any], shape: Sequence[int] = ()) -> Kernel:  # fmt: skip
    """`shape` of the first launch, where it is known: batch, n_q, n_k, heads, kv_heads."""
    read = source.request(params)
    request = {**request, **read}
    try:
        facts = _weft.Pattern(_weft.Request(**read))
        made = Kernel(engine or default_engine(), facts, request, shape)
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
    request = bound(heads, kv_heads, dim, dim_v, dtype, target)
    return compile_source(source_of(source, pattern), spell_params(params), engine, request)
