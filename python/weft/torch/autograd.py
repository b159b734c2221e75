"""Attention that autograd differentiates."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from .. import _weft
from .._kernels import AN_LSE, KEPT_LSE, Kernel


_Call = tuple[Kernel, bool, tuple[Any, ...], tuple[str, ...]]
"""What autograd is not asked about: the kernel, `heads_first`, options of a launch behind its inputs, names of these."""


class _Attention(torch.autograd.Function):
    """O and, where the rows have one, the LSE; of both the gradient is that of the pattern. Written for calls that compute
    little: microseconds count."""

    @staticmethod
    def forward(ctx: Any, call: _Call, with_lse: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *inputs: Any) -> Any:
        kernel, heads_first, options, names = ctx.call = call
        offset, cu_q, cu_k, seed, threads, stream = options
        named = dict(zip(names, inputs)) if names else None
        out, lse = _weft.forward(kernel.recording, q, k, v, None, AN_LSE if with_lse else KEPT_LSE, heads_first, named, offset, cu_q,
                                 cu_k, seed, threads, stream)  # fmt: skip
        # What a caller gets may be of a graph of its own.
        ctx.lse = None if with_lse else lse
        if names:
            ctx.save_for_backward(q, k, v, out, lse if with_lse else None, *(x if isinstance(x, torch.Tensor) else None for x in inputs))
            ctx.others = [None if isinstance(x, torch.Tensor) else x for x in inputs]  # lists of numbers
        elif not with_lse:
            ctx.save_for_backward(q, k, v, out)
            return out
        else:
            ctx.save_for_backward(q, k, v, out, lse)
        if not with_lse:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor | None, d_lse: torch.Tensor | None = None) -> Any:
        names = ctx.call[3]
        q, k, v, out, *rest = ctx.saved_tensors
        lse, inputs = (rest[0] if rest else None), rest[1:]
        if ctx.lse is not None:
            lse = ctx.lse
        if names:
            inputs = [other if tensor is None else tensor for tensor, other in zip(inputs, ctx.others)]
        d_out = torch.zeros_like(out) if d_out is None else d_out
        given = (ctx.call, _wanted(names, ctx.needs_input_grad), d_out, d_lse, q, k, v, out, lse, *inputs)
        # Where the graph of gradients is recorded, too, it ends in a node that says why.
        return (None, None, *(_Gradients.apply(*given) if torch.is_grad_enabled() else _gradients(*given)))


@functools.lru_cache(maxsize=None)
def _wanted(names: tuple[str, ...], needs: tuple[bool, ...]) -> tuple[str, ...]:
    """What a backward pass shall make, of what `_Attention.forward` was given."""
    return tuple(name for name, needed in zip(("q", "k", "v", *names), needs[2:]) if needed)


def _gradients(call: _Call, wanted: tuple[str, ...], d_out: torch.Tensor, d_lse: torch.Tensor | None, q: torch.Tensor,
               k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor | None, *inputs: Any) -> tuple[Any, ...]:  # fmt: skip
    kernel, heads_first, options, names = call
    named = dict(zip(names, inputs)) if names else None
    found = kernel.backward(q, k, v, out, lse, d_out, d_lse, wanted, heads_first, named, *options)
    return (found.q, found.k, found.v, *(found.inputs.get(name) for name in names))


class _Gradients(torch.autograd.Function):
    """What the backward pass computes. It knows no derivative of its own, and says so where one is asked for."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        return _gradients(*given)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("weft.attention has first derivatives only: the gradient of its gradient is not computed")


def attention(kernel: Kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads_first: bool, inputs: Mapping[str, Any] | None,
              options: tuple[Any, ...], with_lse: bool) -> Any:  # fmt: skip
    """`kernel(q, k, v, …)` of tensors that gradients are wanted of. `options`: those of a launch, behind its inputs."""
    if not inputs:
        return _Attention.apply((kernel, heads_first, options, ()), with_lse, q, k, v)
    return _Attention.apply((kernel, heads_first, options, tuple(inputs)), with_lse, q, k, v, *inputs.values())
