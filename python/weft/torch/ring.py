"""Rings over `torch.distributed`, and the ring modules of dilated-attention-pytorch."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist

from .._sources import source_of
from ..errors import UnavailableError
from ..ring import Ring, RingPlan
from .dilated import Dilated
from .inputs import Tensor

__all__ = ["RingDilatedAttention", "RingDilatedAttentionV2", "ring"]


def ring(group: Any = None, *, layout: str = "auto", by: str = "auto", timeout: float = 60.0, nccl: int | None = None,
         memory: int = 0) -> Ring:  # fmt: skip
    """A ring of the ranks of a process group, the default one where it is None, whatever its backend: messages travel over
    host memory, but for rows on GPUs where `nccl` names this rank's. Collective; see `weft.ring.Ring`."""
    from .process_group import ProcessGroupMessenger

    return Ring(ProcessGroupMessenger(group), layout=layout, by=by, timeout=timeout, nccl=nccl, memory=memory)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: RingPlan, seed: int, threads: int, names: tuple[str, ...], q: Tensor, k: Tensor, v: Tensor,
                *_: Any) -> tuple[Tensor, Tensor]:  # fmt: skip
        out, lse = plan.forward(q, k, v, seed, threads, True)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.seed, ctx.threads, ctx.names = plan, seed, threads, names
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        d_out = torch.zeros_like(out) if d_out is None else d_out
        wanted = [name for name, wants in zip(ctx.names, ctx.needs_input_grad[7:]) if wants]
        found = ctx.plan.backward(q, k, v, out, lse, d_out, d_lse, seed=ctx.seed, threads=ctx.threads, inputs=wanted)
        return (None, None, None, None, *found[:3], *(found.inputs.get(name) for name in ctx.names))


def ring_attention(plan: RingPlan, q: Tensor, k: Tensor, v: Tensor, inputs: Mapping[str, Any], seed: int,
                   threads: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """O and the LSE of this rank's rows, for autograd."""
    return _RingAttention.apply(plan, seed, threads, tuple(inputs), q, k, v, *inputs.values())


def ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def refuse_ranks(name: str) -> None:
    if ranks() > 1:
        raise UnavailableError(
            f"{name} does not run over the {ranks()} ranks of the process group; RingDilatedAttention and weft.torch.ring do"
        )


@functools.lru_cache(maxsize=1)
def _default_ring(group: Any) -> Ring:
    return ring(group)


@functools.lru_cache(maxsize=32)
def _plan_of(group: Any, source: Any, tokens: int, heads: int, dim: int, batch: int, dtype: torch.dtype,
             scale: float | None, gradient: bool) -> RingPlan:  # fmt: skip
    return _default_ring(group).plan(source, tokens=tokens, heads=heads, dim=dim, batch=batch, dtype=dtype, scale=scale,
                                     gradient=gradient)  # fmt: skip


class _OnAllRanks(torch.autograd.Function):
    """All ranks have all tokens, and each computes its share; the gradients of all ranks are those of the one loss that each
    computes."""

    @staticmethod
    def forward(ctx: Any, plan: RingPlan, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.plan, ctx.tokens = plan, q.shape[1]
        q, k, v = (plan.own(x).contiguous() for x in (q, k, v))
        out, lse = plan.forward(q, k, v, 0, 0, True)
        ctx.save_for_backward(q, k, v, out, lse)
        return _on_all_ranks(plan, out, ctx.tokens)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        found = ctx.plan.backward(q, k, v, out, lse, ctx.plan.own(d_out).contiguous())
        return (None, *(_on_all_ranks(ctx.plan, x, ctx.tokens) for x in found[:3]))


@atexit.register
def _leave() -> None:
    _plan_of.cache_clear()
    _default_ring.cache_clear()


def _on_all_ranks(plan: RingPlan, rows: Tensor, tokens: int) -> Tensor:
    """Rows of all ranks, on every rank."""
    most = max(sum(map(len, plan.owned(rank))) for rank in range(ranks()))
    padded = rows.new_zeros((rows.shape[0], most, *rows.shape[2:]))
    padded[:, : rows.shape[1]] = rows
    parts = [torch.empty_like(padded) for _ in range(ranks())]
    dist.all_gather(parts, padded)
    whole = rows.new_empty((rows.shape[0], tokens, *rows.shape[2:]))
    for rank, part in enumerate(parts):
        at = 0
        for run in plan.owned(rank):
            whole[:, run.start : run.stop : run.step] = part[:, at : at + len(run)]
            at += len(run)
    return whole


class RingDilatedAttention(Dilated):
    """Equal to `DilatedAttention` whatever the size of the ring. Where a process group of more than one rank is initialised,
    each rank is given, and returns, all tokens, and computes its share of them, of gradients, too, where every rank computes
    the same loss; without masks and dropout. `weft.torch.ring` is for ranks that have their own tokens only."""

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], dropout: float = 0.0, use_tf32: bool = True,
                 block_size: int = 1024, ring_size: int | None = None, use_checkpointing: bool = True, device: Any = None,
                 dtype: Any = None, *, ragged: bool = False) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, None, dropout, ragged)
        self.ring_size = ring_size or 1

    def attend(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, inputs: dict[str, Tensor]) -> Tensor:
        if ranks() == 1:
            return super().attend(query, key, value, is_causal, inputs)
        if inputs or (self.training and self.dropout):
            raise UnavailableError(f"{type(self).__name__} over {ranks()} ranks takes neither masks nor dropout")
        batch, tokens, heads, dim = query.shape
        source = source_of(self._patterns.of(is_causal, inputs))
        records = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
        plan = _plan_of(dist.group.WORLD, source, tokens, heads, dim, batch, query.dtype, self.softmax_scale, records)
        if records:
            return cast(Tensor, _OnAllRanks.apply(plan, query, key, value))
        return _on_all_ranks(plan, plan(*(plan.own(x) for x in (query, key, value))), tokens)


class RingDilatedAttentionV2(RingDilatedAttention):
    """Every query of a segment sees the segment's dilated keys. Causal by position; any number of tokens."""

    _groups, _queries, _combine = "groups_last", "all", "sum"

    def __init__(self, segment_lengths: Sequence[int], dilation_rates: Sequence[int], dropout: float = 0.0,
                 ring_size: int | None = None, device: Any = None, dtype: Any = None, enable_memory_pool: bool = False,
                 enable_profiling: bool = False, lightweight_pool: bool = True, use_pattern_cache: bool = True) -> None:  # fmt: skip
        super().__init__(segment_lengths, dilation_rates, dropout, ring_size=ring_size, ragged=True)
