"""What modules add to a pattern by what a call brings, and the checks that they share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch

from ..patterns import Pattern

Tensor = torch.Tensor

#: Of inputs of modules: type and axes, and the statement that reads them.
MASK = ("u8[batch, queries, keys]", "keep table(mask);")
BIAS = ("f32[batch, queries, keys]", "score s + bias[b, q, k];")
PRESENT = ("u8[batch, keys]", "keep where(present[b, k] != 0);")
LENGTHS = ("i32[batch]", "keep lengths(tokens_of);")

Given = tuple[str, ...]


def text_of(name: str, declared: Mapping[str, str], statements: Sequence[str]) -> str:
    """A pattern with these inputs; empty statements are left out."""
    lines = [*(f"input {one}: {what};" for one, what in declared.items()), *filter(None, statements)]
    return f"pattern {name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


class Variants:
    """A pattern in all its forms, causal or not and with any of some inputs. Made at once, for torch.compile sees no parser."""

    def __init__(self, name: str, statements: Sequence[str], inputs: Mapping[str, tuple[str, str]]) -> None:
        self.inputs = tuple(inputs)
        self.made: dict[tuple[bool, Given], Pattern] = {}
        for is_causal in (False, True):
            for given in itertools.chain.from_iterable(itertools.combinations(inputs, n) for n in range(len(inputs) + 1)):
                further = [*(inputs[one][1] for one in given), "keep causal;" if is_causal else ""]
                declared = {one: inputs[one][0] for one in given}
                self.made[is_causal, given] = Pattern.parse(text_of(name, declared, [*statements, *further]))

    def of(self, is_causal: bool, given: Mapping[str, Tensor]) -> Pattern:
        return self.made[bool(is_causal), tuple(one for one in self.inputs if one in given)]


def checked_lists(segments: Sequence[int], rates: Sequence[int], dropout: float) -> tuple[list[int], list[int]]:
    for name, values in (("segment_lengths", segments), ("dilation_rates", rates)):
        if not values:
            raise ValueError(f"{name} cannot be empty")
        for number, value in enumerate(values):
            if value <= 0:
                raise ValueError(f"{name}[{number}] is {value}; it must be positive")
    if len(segments) != len(rates):
        counts = f"{len(segments)} and {len(rates)}"
        raise ValueError(f"segment_lengths and dilation_rates must have the same length; they have {counts}")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is {dropout}; it must be between 0.0 and 1.0")
    return list(segments), list(rates)


def checked_heads(embed_dim: int, num_heads: int) -> int:
    """The head dim."""
    for name, value in (("embed_dim", embed_dim), ("num_heads", num_heads)):
        if value <= 0:
            raise ValueError(f"{name} is {value}; it must be positive")
    if embed_dim % num_heads:
        raise ValueError(f"embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})")
    return embed_dim // num_heads


def check_embedded(embed_dim: int, *tensors: Tensor) -> None:
    """query, key and value of a module that projects them."""
    shapes = [list(x.shape) for x in tensors]
    if any(x.dim() != 3 for x in tensors):
        raise ValueError(f"Expected 3D tensors [batch, tokens, embed_dim], got the shapes {shapes}")
    if any(shape[:2] != shapes[0][:2] for shape in shapes):
        raise ValueError(f"batch and tokens of query, key and value must match; their shapes are {shapes}")
    if any(shape[2] != embed_dim for shape in shapes):
        raise ValueError(f"the embedding dimension is {embed_dim}; the shapes are {shapes}")


def mask_inputs(name: str, mask: Tensor) -> dict[str, Tensor]:
    """Of a mask [batch, queries, keys]: bool, True attends, or floats that are added."""
    if mask.dtype == torch.bool:
        return {"mask": mask.to(torch.uint8).contiguous()}
    if not mask.is_floating_point():
        raise ValueError(f"{name} is {mask.dtype}; expected bool or a float dtype")
    return {"bias": mask.float().contiguous()}


def check_attended(query: Tensor, key: Tensor, value: Tensor) -> None:
    """query, key and value of a module that is given heads."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(f"{name}: expected 4D tensor [batch, tokens, heads, dim], got the shape {list(x.shape)}")
        for axis, (found, wanted) in enumerate(zip(x.shape, query.shape)):
            if found != wanted:
                raise ValueError(f"Shape mismatch at dimension {axis}: query has {wanted}, {name} has {found}")


def masks_of_multihead(query: Tensor, mask: Tensor | None, padding: Tensor | None) -> dict[str, Tensor]:
    """Inputs of the masks of `torch.nn.MultiheadAttention`, where True is not attended: `attn_mask` [n, n] or [batch, n, n],
    `key_padding_mask` [batch, n]. `query` [batch, n, embed_dim]."""
    batch, tokens = query.shape[:2]
    out: dict[str, Tensor] = {}
    if mask is not None:
        if tuple(mask.shape) not in ((tokens, tokens), (batch, tokens, tokens)):
            raise ValueError(
                f"attn_mask has the shape {list(mask.shape)}; expected [{tokens}, {tokens}] or [{batch}, {tokens}, {tokens}]"
            )
        whole = mask.expand(batch, tokens, tokens)
        out.update(mask_inputs("attn_mask", ~whole if whole.dtype == torch.bool else whole))
    if padding is not None:
        out["present"] = padding_input(query, padding)
    return out


def padding_input(query: Tensor, padding: Tensor) -> Tensor:
    """Of `key_padding_mask` [batch, tokens], True is not attended: the input `present`."""
    if tuple(padding.shape) != tuple(query.shape[:2]) or padding.dtype != torch.bool:
        expected = f"torch.bool {list(query.shape[:2])}"
        raise ValueError(f"key_padding_mask is {padding.dtype} {list(padding.shape)}; expected {expected}")
    return (~padding).to(torch.uint8)
