"""One pattern over many ranks: each has its own rows of Q, K, V and O, and fetches the keys that its queries keep.

    ring = weft.ring.Ring(messenger)                                # on every rank; with PyTorch: weft.torch.ring()
    plan = ring.plan("longnet", tokens=65536, heads=8, dim=64)      # once a shape
    out = plan(plan.own(q), plan.own(k), plan.own(v))               # O of this rank's rows, with the bits of one device

Calls of a ring are collective: every rank makes the same ones in the same order, from one thread at a time. `docs/ring.md`
of the project says which rank owns what, and what travels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from . import _arrays, _weft
from ._attention import kernel_of, statements_of
from ._kernels import Engine, Kernel
from ._sources import PatternSource, Source, source_of
from ._words import dtype_name, spell_params
from .errors import ArgumentError

__all__ = ["Messenger", "Ring", "RingGradients", "RingPlan", "threads"]

_LAYOUTS = {"auto": 0, "contiguous": 1, "zigzag": 2, "striped": 3}
_CARRIERS = {"auto": 0, "keys": 1, "heads": 2, "queries": 3}


class Messenger(Protocol):
    """A way to send messages between ranks. Nothing here blocks. What a function raises ends the ring."""

    rank: int
    ranks: int

    def send(self, peer: int, tag: int, data: memoryview) -> int:
        """Begins a message to another rank, of bytes that stay where they are until it is done or cancelled; the request, not
        0, that `test` and `cancel` take. Messages of one sender, receiver and tag arrive in the order of sending."""
        ...

    def receive(self, peer: int, tag: int, data: memoryview) -> int:
        """Begins to wait for one, to be written there."""
        ...

    def test(self, request: int) -> int | None:
        """How many bytes went or came, if the message is done: the request is then no more."""
        ...

    def cancel(self, request: int) -> None:
        """When it returns, the message's bytes are not looked at again."""
        ...

    def end(self) -> None:
        """No further call comes."""
        ...


class RingGradients(NamedTuple):
    """Of `sum(d_out * out) + sum(d_lse * lse)` over all ranks, by this rank's rows. Those of inputs are whole, and the same on
    every rank."""

    q: Any
    k: Any
    v: Any
    inputs: dict[str, Any]


class Ring:
    """Ranks that came together. `messenger`: this rank's, or one of `threads`. `layout` says which rank owns which tokens:
    `"auto"`, `"contiguous"`, `"zigzag"` or `"striped"`. `by`: what travels, `"keys"`, `"heads"`, `"queries"` or `"auto"`. `timeout`: seconds
    without a sign of life, after which a rank that is waited for is lost. `memory`: bytes that a rank has for K, V and
    messages, 0 for what they take; where it is less, ranks go through the keys in rounds. `nccl`: this rank's GPU, another one for each; rows of plans for it
    (`target=f"cuda:{nccl}"`) go from GPU to GPU by NCCL, where they would else travel over the host.

    Raises `ArgumentError` where ranks disagree, and names them; `UnavailableError` where one does not come."""

    def __init__(self, messenger: Messenger | _weft.Transport, *, layout: str = "auto", by: str = "auto", timeout: float = 60.0,
                 nccl: int | None = None, memory: int = 0) -> None:  # fmt: skip
        if layout not in _LAYOUTS:
            raise ArgumentError(f"layout is '{layout}'; expected one of {', '.join(_LAYOUTS)}")
        if by not in _CARRIERS:
            raise ArgumentError(f"by is '{by}'; expected one of {', '.join(_CARRIERS)}")
        if not timeout > 0:
            raise ArgumentError(f"timeout is {timeout}; expected seconds above 0")
        if memory < 0:
            raise ArgumentError(f"memory is {memory}; expected bytes, or 0")
        transport = messenger if isinstance(messenger, _weft.Transport) else _weft.Transport(messenger)
        if nccl is not None:
            transport = transport.with_nccl(nccl, round(timeout * 1000))
        self._core = _weft.Ring(transport, _LAYOUTS[layout], _CARRIERS[by], round(timeout * 1000), memory)

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def ranks(self) -> int:
        return self._core.ranks

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self._core.barrier()

    def plan(self, pattern: PatternSource | Source = "dense", *, tokens: int, heads: int, dim: int, kv_heads: int | None = None,
             dim_v: int | None = None, batch: int = 1, dtype: Any = "f32", scale: float | None = None, dropout: float = 0.0,
             inputs: Mapping[str, Any] | None = None, gradient: bool = False, target: str | None = None,
             engine: Engine | None = None, **params: Any) -> RingPlan:  # fmt: skip
        """Who owns what and what travels, for one pattern and shape; see `weft.attention` for what is not named here.
        `inputs`: whole, and the same on every rank. `gradient`: `RingPlan.backward` will be called.

        Raises `PatternError` where the pattern cannot be split, `ArgumentError` where ranks ask for different things."""
        statements = statements_of(scale, dropout, False)
        source = pattern if isinstance(pattern, Source) else source_of(pattern)
        options = (engine, dim, dim_v or dim, dtype_name(dtype), target or "cpu")
        kernel = kernel_of(source, spell_params(params), statements, *options)
        return RingPlan(self, kernel, (batch, tokens, heads, kv_heads or heads), inputs, gradient)


class RingPlan:
    """A kernel at one size, on this rank. Made by `Ring.plan`."""

    def __init__(self, ring: Ring, kernel: Kernel, shape: tuple[int, int, int, int], inputs: Mapping[str, Any] | None,
                 gradient: bool) -> None:  # fmt: skip
        self._ring, self._kernel, self._inputs, self._shape = ring, kernel, inputs, shape
        self._forward = _weft.RingPlan(ring._core, kernel.recording if gradient else kernel._core, shape, inputs)
        self._backward = _weft.RingPlan(ring._core, kernel._gradient, shape, inputs) if gradient else None

    @property
    def _branches(self) -> tuple[int, ...]:
        return (self._kernel.branches,) if self._kernel.lse == "branches" else ()

    @property
    def _lse(self) -> str:
        return "branch_lse" if self._kernel.lse == "branches" else "lse"

    @property
    def layout(self) -> str:
        """Such as `contiguous` or `snake(group 8, rounds 2)`."""
        return self._forward.layout()

    @property
    def carrier(self) -> str:
        """What travels: `local` (nothing), `keys`, `heads`, `queries`, or the last two with `, keys`."""
        return self._forward.carrier()

    @property
    def bits(self) -> str:
        """What a row's bits go by: `one device`, or `chunks of 4096 keys`, where queries or rounds of keys travel."""
        return self._forward.bits()

    def owned(self, rank: int) -> list[range]:
        """Tokens of a rank, in the order of its rows; none where there are more ranks than tokens."""
        return [range(first, first + count * stride, stride) for first, count, stride in self._forward.owned(rank)]

    def share(self) -> dict[str, float]:
        """What this rank has to do, and did in its last run: `tokens`, `messages`, `pairs` (kept, over batch and heads),
        `needed_bytes`, `received_bytes`, `sent_bytes`, `wait_ms` (for keys of others)."""
        return self._forward.share()

    def __call__(self, q: Any, k: Any, v: Any, *, seed: int | None = None, return_lse: bool = False, threads: int = 0) -> Any:
        """Attention of this rank's rows: q [B, own rows, H, d], k [B, own rows, H_kv, d], v [B, own rows, H_kv, d_v] on the host.
        O [B, own rows, H, d_v], or `(O, LSE)` with LSE [B, H, own rows] f32. Where weights are dropped, `seed` must be given, and
        be the same on every rank. Tensors of PyTorch that record gradients, the plan's inputs among them, go through autograd,
        whose backward pass is collective, too; gradients of inputs are those of all ranks' rows."""
        if return_lse and self._kernel.lse != "rows":
            raise ArgumentError("return_lse: there is no LSE of the rows: combine sum and mean have one per branch, 'weights sigmoid' none")
        if _weft.records_gradients(q, k, v, self._inputs):
            from .torch.ring import ring_attention

            out, lse = ring_attention(self, q, k, v, self._inputs or {}, self._seed(seed), threads)
        else:
            out, lse = self.forward(q, k, v, self._seed(seed), threads, return_lse)
        return (out, lse) if return_lse else out

    def forward(self, q: Any, k: Any, v: Any, seed: int, threads: int, with_lse: bool) -> tuple[Any, Any]:
        """O, and the LSE where it is wanted and there is one: of a plan with gradients that of each branch where there is no other."""
        batch, _, heads, _ = self._shape
        rows, dim_v = q.shape[1], v.shape[3]
        out = _arrays.empty(q, (batch, rows, heads, dim_v), _dtype(q), True)
        with_lse = with_lse and self._kernel.lse != "none"
        lse = _arrays.empty(q, (*self._branches, batch, heads, rows), "f32", False) if with_lse else None
        arrays = {"q": q, "k": k, "v": v, "out": out, self._lse: lse}
        self._forward.run(arrays, self._inputs, None, seed, threads)
        return out, lse

    def backward(self, q: Any, k: Any, v: Any, out: Any, lse: Any, d_out: Any, d_lse: Any = None, *, seed: int = 0,
                 threads: int = 0, inputs: Sequence[str] = ()) -> RingGradients:  # fmt: skip
        """Gradients of this rank's rows, from what `forward` with an LSE returned. `inputs`: names of the plan's f32 inputs
        whose gradients are wanted, the same on every rank."""
        if self._backward is None:
            raise ArgumentError("the plan was made without gradient=True, and gradients are asked for")
        made = [_arrays.empty(x, tuple(x.shape), _dtype(x), True) for x in (q, k, v)]
        arrays = {"q": q, "k": k, "v": v, "out": out, self._lse: lse, "d_out": d_out, "d_lse": d_lse}
        given = self._inputs or {}
        for name in inputs:
            if name not in given:
                raise ArgumentError(f"the plan has no input '{name}'")
        of_inputs = {name: _arrays.empty(q, tuple(_weft.View(given[name], name).shape), "f32", False) for name in inputs}
        wanted = {"dq": made[0], "dk": made[1], "dv": made[2]}
        self._backward.run({**arrays, **wanted}, self._inputs, of_inputs, seed, threads)
        return RingGradients(made[0], made[1], made[2], of_inputs)

    def own(self, whole: Any, axis: int = 1, rank: int | None = None) -> Any:
        """Of an array with all tokens along `axis` the rows of this rank, or of `rank`: a view where they are one run of
        tokens, else a copy."""
        runs = self.owned(self._ring.rank if rank is None else rank) or [range(0)]
        parts = [whole[(*(slice(None),) * axis, slice(run.start, run.stop, run.step))] for run in runs]
        return parts[0] if len(parts) == 1 else _arrays.joined(parts, axis)

    def gather(self, rows: Any, axis: int = 1) -> Any:
        """Rows of all ranks, brought together on rank 0; None on the others. `axis`: which one counts rows, 1 of q and O, 2 of
        the LSE."""
        whole = None
        if self._ring.rank == 0:
            shape = (*rows.shape[:axis], self._shape[1], *rows.shape[axis + 1 :])
            whole = _arrays.empty(rows, shape, _dtype(rows), True)
        self._forward.gather(rows, axis, whole)
        return whole

    def _seed(self, seed: int | None) -> int:
        if seed is None and self._kernel._core.drops:
            raise ArgumentError("weights are dropped: seed must be given, and be the same on every rank")
        return (seed or 0) % 2**64


def threads(ranks: int) -> list[_weft.Transport]:
    """Ranks that are threads of this process, for `Ring`: each joins, and makes its calls, in a thread of its own.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> def rank(transport):
    ...     return Ring(transport).plan("dense", tokens=10, heads=1, dim=8).owned(1)
    >>> with ThreadPoolExecutor(2) as pool:
    ...     sorted(map(str, pool.map(rank, threads(2))))
    ['[range(5, 10)]', '[range(5, 10)]']
    """
    return _weft.local_transports(ranks)


def _dtype(array: Any) -> str:
    return _weft.View(array, "rows").dtype
