"""`torch.ops.weft.attention`: what PyTorch's compiler, export, fake tensors and vmap see of Weft."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .. import _weft
from .._arrays import Borders
from .._attention import kernel_of, shape_of
from .._kernels import Kernel
from .._sources import Source
from ..errors import ArgumentError

Tensor = torch.Tensor

_weft.leaks_are_known()  # PyTorch holds an operator's functions, and so this package, until the process ends
_LIBRARY = torch.library.Library("weft", "DEF")

_HOW = "str pattern, str name, str[] params, str[] names, bool heads_first, SymInt[] offset, SymInt[] cu_q, SymInt[] cu_k, SymInt max_q, SymInt max_k, str target, int threads"
_GIVEN = "Tensor q, Tensor k, Tensor v, Tensor[] inputs, Tensor? seed"
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(f"attention({_GIVEN}, {_HOW}) -> (Tensor out, Tensor lse)", tags=_TAGS)
_LIBRARY.define(
    f"attention_backward(Tensor d_out, Tensor? d_lse, Tensor out, Tensor lse, bool[] wanted, {_GIVEN}, {_HOW}) -> Tensor[]", tags=_TAGS
)

op = torch.ops.weft.attention.default
"""O, and the LSE that the backward pass reads: [B, H, n_q], with `combine sum` and `mean` [branches, B, H, n_q], with
`weights sigmoid` [0]; f32."""
op_backward = torch.ops.weft.attention_backward.default
"""Of q, k, v and inputs those gradients that `wanted` names, in this order."""


class How(NamedTuple):
    """What both operators are told besides tensors."""

    pattern: str
    """Text of the language, as `one_line` has it."""
    name: str
    """Of the pattern in the text; empty: the only one."""
    params: list[str]
    """`name=value`"""
    names: list[str]
    """Of the inputs."""
    heads_first: bool
    offset: list[int]
    cu_q: list[int]
    cu_k: list[int]
    max_q: int
    """Not 0: borders stand behind the inputs, as tensors that the kernel reads when it runs, those of q and those of k."""
    max_k: int
    target: str
    threads: int

    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Kernel:
        params = tuple((name, value) for name, _, value in (param.partition("=") for param in self.params))
        dtype = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}.get(q.dtype)
        if dtype is None:
            raise ArgumentError(f"q is {q.dtype}; expected f32, f16, bf16 or f64")
        target = self.target or ("interpreter" if dtype == "f64" else _target_of(q.device))
        source = Source(_many_lines(self.pattern), self.name, "<pattern>")
        shape = () if self.cu_q or self.max_q else shape_of(q.shape, k.shape, self.heads_first)
        return kernel_of(source, params, (), None, q.shape[-1], v.shape[-1], dtype, target, shape)

    def options(self, kernel: Kernel, inputs: Sequence[Tensor], seed: Tensor | None, of_inputs: bool) -> tuple[Any, ...]:
        """Of a launch: see `Kernel.forward`. `of_inputs`: it makes their gradients."""
        # A kernel of a GPU reads it when it runs, so that a CUDA graph draws anew each time.
        drawn = 0 if seed is None else seed if seed.is_cuda else int(seed.item())
        named = dict(zip(self.names, inputs))
        borders: tuple[Any, Any] = (self.cu_q or None, self.cu_k or None)
        if self.max_q:
            borders = kernel.borders_of_launch(Borders(inputs[-2], self.max_q), Borders(inputs[-1], self.max_k), of_inputs)
        return (self.heads_first, named or None, self.offset or None, *borders, drawn, self.threads, None)

    def facts(self) -> Facts:
        return facts_of(self.pattern, self.name, tuple(self.params))


class Facts(NamedTuple):
    """What a pattern's text says of itself."""

    lse: str
    branches: int
    drops: bool
    names: tuple[str, ...]
    needs_loop: bool
    """Batch entries are not alike: what is mapped over cannot become more of them."""


def one_line(text: str) -> str:
    """The same in one line of ASCII: PyTorch's compiler writes what an operator is told into comments of one line, and
    what stood in further lines would be program."""
    return text.encode("unicode_escape").decode("ascii")


def _many_lines(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


@functools.lru_cache(maxsize=256)
def facts_of(text: str, name: str, params: tuple[str, ...]) -> Facts:
    """`text`: as `one_line` has it."""
    read = _weft.Pattern(_weft.Request(_many_lines(text), pattern=name, params=list(params)))
    drops = "\n  dropout " in read.text
    needs_loop = drops or bool(read.inputs) or read.lse != "rows" or re.search(r"\bb\b", read.text) is not None
    return Facts(read.lse, read.branches, drops, tuple(name for name, _, _ in read.inputs), needs_loop)


def _target_of(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


# ---------------------------------------------------------------- the operators


def _forward(q: Tensor, k: Tensor, v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    how = How(*rest)
    kernel = how.kernel(q, k, v)
    out, lse = kernel.forward(q, k, v, *how.options(kernel, inputs, seed, False))
    return out, q.new_zeros(0, dtype=torch.float32) if lse is None else lse


def _backward(d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor, wanted: Sequence[bool], q: Tensor, k: Tensor,
              v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *rest: Any) -> list[Tensor]:  # fmt: skip
    how = How(*rest)
    asked = tuple(name for name, wants in zip(("q", "k", "v", *how.names), wanted) if wants)
    saved = None if how.facts().lse == "none" else lse
    d_lse = None if saved is None else d_lse
    kernel, of_inputs = how.kernel(q, k, v), any(name in how.names for name in asked)
    found = kernel.backward(q, k, v, out, saved, d_out, d_lse, asked, *how.options(kernel, inputs, seed, of_inputs))
    by_name = {"q": found.q, "k": found.k, "v": found.v, **found.inputs}
    return [by_name[name] for name in asked]


def _check(q: Tensor, k: Tensor, v: Tensor, heads_first: bool) -> None:
    """What shapes alone tell, before anything runs."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            axes = "[B, H, n, d]" if heads_first else "[B, n, H, d]"
            raise ArgumentError(f"{name} has {x.dim()} axes: {list(x.shape)}; expected 4: {axes}")
        if x.dtype != q.dtype:
            raise ArgumentError(f"{name} is {x.dtype}; expected {q.dtype}, as q")


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    how = How(*rest)
    _check(q, k, v, how.heads_first)
    batch, second, third, _ = q.shape
    heads, rows = (second, third) if how.heads_first else (third, second)
    facts = how.facts()
    lse = {"rows": (batch, heads, rows), "branches": (facts.branches, batch, heads, rows), "none": (0,)}[facts.lse]
    return q.new_empty((batch, second, third, v.shape[3])), q.new_empty(lse, dtype=torch.float32)


def _fake_backward(d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor, wanted: Sequence[bool], q: Tensor, k: Tensor,
                   v: Tensor, inputs: Sequence[Tensor], *rest: Any) -> list[Tensor]:  # fmt: skip
    return [x.new_empty(x.shape) for x, wants in zip((q, k, v, *inputs), wanted) if wants]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, given, seed, *how = inputs
    ctx.save_for_backward(q, k, v, seed, *output, *given)
    ctx.set_materialize_grads(False)
    ctx.how = how


def _of_all(ctx: Any, run: Callable[..., Any], wanted: list[bool], d_out: Tensor | None, d_lse: Tensor | None) -> list[Tensor | None]:
    """Gradients of q, k, v and inputs; None where they are not wanted. `run`: `op_backward` or what stands for it."""
    q, k, v, seed, out, lse, *given = ctx.saved_tensors
    if d_out is None:
        d_out = torch.zeros_like(out)
    found = iter(run(d_out, d_lse, out, lse, wanted, q, k, v, given, seed, *ctx.how))
    return [next(found) if wants else None for wants in wanted]


def _gradients(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad
    of_all = _of_all(ctx, op_backward, [*needs[:3], *(needs[3] or ())], d_out, d_lse)
    return (*of_all[:3], of_all[3:], None, *([] if x == [] else None for x in ctx.how))  # an empty list counts as one of tensors


def _no_second(ctx: Any, *_: Any) -> Any:
    raise RuntimeError("weft.attention has first derivatives only: the gradient of its gradient is not computed")


def _selected(x: Any, axis: Any, number: int) -> Any:
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], Tensor):
        return [_selected(one, its, number) for one, its in zip(x, axis)]
    return x.select(axis, number) if isinstance(x, Tensor) and axis is not None else x


def _merged(x: Any, axis: Any, size: int) -> Any:
    if not isinstance(x, Tensor):
        return x
    spread = x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
    return spread.flatten(0, 1)


def mapped(operator: Callable[..., Any], how: How | None = None) -> Any:
    """How to map over an operator: more batch entries where they are alike, else one call for each. `how` stands last in
    the operator's arguments unless it is given."""

    def rule(info: Any, axes: tuple[Any, ...], *args: Any) -> Any:
        size, told = info.batch_size, how or How(*args[-len(How._fields) :])
        if told.facts().needs_loop or told.offset or told.cu_q or told.cu_k or told.max_q:
            each = [operator(*(_selected(x, axis, i) for x, axis in zip(args, axes))) for i in range(size)]
            made = [torch.stack(some) for some in zip(*each)]
        else:
            merged = operator(*(_merged(x, axis, size) for x, axis in zip(args, axes)))
            made = [x.unflatten(0, (size, -1)) for x in merged]
        return (made, [0] * len(made)) if operator is op_backward else (tuple(made), (0,) * len(made))

    return rule


class _Transformed(torch.autograd.Function):
    """The operator for `torch.func`, whose transforms do not see through an operator's own derivative."""

    @staticmethod
    def forward(how: How, q: Tensor, k: Tensor, v: Tensor, seed: Tensor | None, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return op(q, k, v, inputs, seed, *how)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        how, q, k, v, seed, *given = inputs
        _save(ctx, (q, k, v, given, seed, *how), output)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad
        of_all = _of_all(ctx, _TransformedGradients.apply_of, [*needs[1:4], *needs[5:]], d_out, d_lse)
        return (None, *of_all[:3], None, *of_all[3:])

    @staticmethod
    def vmap(info: Any, axes: tuple[Any, ...], how: How, q: Tensor, k: Tensor, v: Tensor, seed: Tensor | None, *inputs: Tensor) -> Any:
        _, of_q, of_k, of_v, of_seed, *of_inputs = axes

        def apply(q: Tensor, k: Tensor, v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *_: Any) -> Any:
            return _Transformed.apply(how, q, k, v, seed, *inputs)

        made, places = mapped(apply, how)(info, (of_q, of_k, of_v, of_inputs, of_seed), q, k, v, inputs, seed)
        return tuple(made), tuple(places)


class _TransformedGradients(torch.autograd.Function):
    """`op_backward` for `torch.func`."""

    @classmethod
    def apply_of(cls, d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor, wanted: list[bool], q: Tensor, k: Tensor,
                 v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *how: Any) -> tuple[Tensor, ...]:  # fmt: skip
        return cls.apply(How(*how), wanted, d_out, d_lse, out, lse, q, k, v, seed, *inputs)

    @staticmethod
    def forward(how: How, wanted: list[bool], d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor, q: Tensor, k: Tensor,
                v: Tensor, seed: Tensor | None, *inputs: Tensor) -> tuple[Tensor, ...]:  # fmt: skip
        return tuple(op_backward(d_out, d_lse, out, lse, wanted, q, k, v, inputs, seed, *how))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    backward = staticmethod(_no_second)

    @staticmethod
    def vmap(info: Any, axes: tuple[Any, ...], how: How, wanted: list[bool], *tensors: Any) -> Any:
        def apply(*some: Any) -> Any:
            return _TransformedGradients.apply(how, wanted, *some)

        made, places = mapped(apply, how)(info, axes[2:], *tensors)
        return tuple(made), tuple(places)


def transformed(q: Tensor, k: Tensor, v: Tensor, inputs: Sequence[Tensor], seed: Tensor | None, *how: Any) -> tuple[Tensor, Tensor]:
    """`op` where transforms of `torch.func` are at work."""
    return _Transformed.apply(How(*how), q, k, v, seed, *inputs)


for _operator, _run, _fake in ((op, _forward, _fake_forward), (op_backward, _backward, _fake_backward)):
    _name = _operator.name()
    for _key in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _run, _key)
    torch.library.register_fake(_name, _fake, lib=_LIBRARY)
    if hasattr(torch.library, "register_vmap"):  # PyTorch 2.5
        torch.library.register_vmap(_name, mapped(_operator), lib=_LIBRARY)
torch.library.register_autograd(op.name(), _gradients, setup_context=_save, lib=_LIBRARY)
torch.library.register_autograd(op_backward.name(), _no_second, lib=_LIBRARY)
