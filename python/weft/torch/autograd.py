"""Attention that autograd differentiates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._kernels import Kernel


class _Attention(torch.autograd.Function):
    """O and, where the rows have one, the LSE; of both the gradient is that of the pattern."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, options: tuple[Any, ...], names: tuple[str, ...], with_lse: bool, q: torch.Tensor,
                k: torch.Tensor, v: torch.Tensor, *inputs: Any) -> Any:  # fmt: skip
        out, lse = kernel.forward(q, k, v, *_with_inputs(options, names, inputs))
        ctx.save_for_backward(q, k, v, out, lse, *(x if isinstance(x, torch.Tensor) else None for x in inputs))
        ctx.set_materialize_grads(False)
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in inputs]  # lists of numbers
        ctx.kernel, ctx.options, ctx.names = kernel, options, names
        return (out, lse) if with_lse else out

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor | None, d_lse: torch.Tensor | None = None) -> Any:
        q, k, v, out, lse, *tensors = ctx.saved_tensors
        wanted = tuple(name for name, needs in zip(("q", "k", "v", *ctx.names), ctx.needs_input_grad[4:]) if needs)
        inputs = [other if tensor is None else tensor for tensor, other in zip(tensors, ctx.others)]
        d_out = torch.zeros_like(out) if d_out is None else d_out
        given = (ctx.kernel, ctx.options, ctx.names, wanted, d_out, d_lse, q, k, v, out, lse, *inputs)
        # Where the graph of gradients is recorded, too, it ends in a node that says why.
        return (None, None, None, None, *(_Gradients.apply(*given) if torch.is_grad_enabled() else _gradients(*given)))


def _with_inputs(options: tuple[Any, ...], names: tuple[str, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
    heads_first, *others = options
    return (heads_first, dict(zip(names, inputs)) if names else None, *others)


def _gradients(kernel: Kernel, options: tuple[Any, ...], names: tuple[str, ...], wanted: tuple[str, ...], d_out: torch.Tensor,
               d_lse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
               lse: torch.Tensor | None, *inputs: Any) -> tuple[Any, ...]:  # fmt: skip
    found = kernel.backward(q, k, v, out, lse, d_out, d_lse, wanted, *_with_inputs(options, names, inputs))
    return (found.q, found.k, found.v, *(found.inputs.get(name) for name in names))


class _Gradients(torch.autograd.Function):
    """What the backward pass computes. It knows no derivative of its own, and says so where one is asked for."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        return _gradients(*given)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("weft.attention has first derivatives only: the gradient of its gradient is not computed")


def attention(kernel: Kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, inputs: Mapping[str, Any],
              options: tuple[Any, ...], with_lse: bool) -> Any:  # fmt: skip
    """`kernel(q, k, v, …)` of tensors that gradients are wanted of. `options`: those of a launch, but for its inputs."""
    return _Attention.apply(kernel, options, tuple(inputs), with_lse, q, k, v, *inputs.values())
