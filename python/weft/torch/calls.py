"""From the options of `weft.attention` to the operator's arguments, in Python that Dynamo traces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from .._arrays import borders
from .._attention import LENGTHS, statements_of, with_statements
from .._sources import Source, source_of
from .._words import spell_params
from ..errors import ArgumentError
from .operator import facts_of, one_line, op, transformed

Tensor = torch.Tensor


@torch.compiler.assume_constant_result
def _constants(pattern: Any, params: Mapping[str, Any], statements: tuple[str, ...]) -> tuple[str, str, list[str], bool]:
    """Text (in one line), name and parameters of a pattern with further statements, and whether it drops weights."""
    source, values = pattern if isinstance(pattern, Source) else source_of(pattern), spell_params(params)
    if statements:
        source, values = with_statements(source, values, statements), ()
    spelled = [f"{name}={value}" for name, value in values]
    text = one_line(source.text)
    return text, source.pattern, spelled, facts_of(text, source.pattern, tuple(spelled)).drops


def _integers(value: Any) -> list[int]:
    if value is None:
        return []
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return list(value)
    return [value]


def _borders(value: Any, name: str) -> list[int]:
    found = _integers(value)
    if value is not None and not found:
        raise ArgumentError(f"{name} has no entries; one sequence has two")
    return found


def _seed_of(q: Tensor, seed: Any) -> Tensor:
    if seed is None:
        return torch.randint(2**63 - 1, (1,), device=q.device)
    if isinstance(seed, Tensor):
        return seed
    return torch.tensor([(seed + 2**63) % 2**64 - 2**63], dtype=torch.int64, device=q.device)


def op_arguments(q: Tensor, k: Tensor, v: Tensor, pattern: Any = "dense", *, layout: str = "bnhd", scale: float | None = None,
                 dropout: float = 0.0, seed: Any = None, inputs: Mapping[str, Any] | None = None, lengths: Any = None,
                 offset: Any = None, cu_q: Any = None, cu_k: Any = None, max_q: int | None = None, max_k: int | None = None,
                 target: str | None = None, threads: int = 0, **params: Any) -> tuple[Any, ...]:  # fmt: skip
    """Arguments of `weft.torch.op` for what `weft.attention` is called with: for `torch.library.opcheck` and the like."""
    if layout not in ("bnhd", "bhnd"):
        raise ArgumentError(f"layout is '{layout}'; expected 'bnhd' ([batch, tokens, heads, dim]) or 'bhnd'")
    statements = statements_of(scale, dropout, lengths is not None)
    named = pattern if isinstance(pattern, (str, os.PathLike)) else pattern.__weft_source__()
    text, name, spelled, drops = _constants(named, params, statements)
    given = dict(inputs or {})
    if lengths is not None:
        given[LENGTHS] = lengths
    tensors = [x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.int32, device=q.device) for x in given.values()]
    if max_q is not None or max_k is not None:
        tensors += [borders(cu_q, max_q, "cu_q").at, borders(cu_k, max_k, "cu_k").at]
        cu_q = cu_k = None
    return (q, k, v, tensors, _seed_of(q, seed) if drops else None, text, name, spelled, list(given), layout == "bhnd",
            _integers(offset), _borders(cu_q, "cu_q"), _borders(cu_k, "cu_k"), max_q or 0, max_k or 0, target or "", threads)  # fmt: skip


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """In the dtype that autocast asks for where they are."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors)


def _transform() -> Any:
    """What of `torch.func` is at work, or None."""
    functorch: Any = getattr(torch._C, "_functorch")
    return functorch.peek_interpreter_stack()


def attention(q: Tensor, k: Tensor, v: Tensor, pattern: Any, return_lse: bool, **options: Any) -> Any:
    """`weft.attention` by the operator."""
    q, k, v = autocast(q, k, v)
    arguments = op_arguments(q, k, v, pattern, **options)
    if not torch.compiler.is_compiling() and _transform() is not None:
        out, lse = transformed(*arguments)
    else:
        out, lse = op(*arguments)
    if return_lse and lse.dim() != 3:
        raise ArgumentError("return_lse: there is no LSE of the rows: combine sum and mean have one per branch, 'weights sigmoid' none")
    return (out, lse) if return_lse else out
