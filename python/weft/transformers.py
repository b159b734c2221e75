"""Models of Hugging Face's transformers (tested with 5.24) attend through Weft:

    weft.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="weft")

Causal models, sliding windows, soft caps, sinks, grouped heads, caches and padding become patterns without a mask. Masks of other
kinds (packed positions, static caches that are not full, functions of the caller) are tables of queries by keys.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers import masking_utils as masks

from ._attention import attention
from .errors import ArgumentError
from .patterns import Pattern
from .sets import Set
from .torch.inputs import Tensor, text_of

__all__ = ["register"]


def register(name: str = "weft", pattern: Set | None = None) -> None:
    """Makes `attn_implementation=name` known. `pattern`: which keys a query attends to, in place of what the model says
    (causal or not, its sliding window); padding is left out all the same."""
    if pattern is not None and not isinstance(pattern, Set):
        raise TypeError(f"pattern is a {type(pattern).__name__}; expected a weft.Set, such as weft.causal & weft.window(255, 0)")
    AttentionInterface.register(name, _Attention(pattern))
    AttentionMaskInterface.register(name, _mask)


def _is_plain(function: Any) -> bool:
    """Does the attention know what the function says from the model's flags: causal, in a window or not?"""
    if function in (masks.causal_mask_function, masks.bidirectional_mask_function):
        return True
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    parts = cells[0] if len(cells) == 1 and isinstance(cells[0], tuple) else ()
    return (
        function.__qualname__.startswith("and_masks.")
        and len(parts) == 2
        and parts[0].__qualname__.startswith("sliding_window_overlay.")
        and parts[1] is masks.causal_mask_function
    )


def _mask(batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0,
          mask_function: Any = masks.causal_mask_function, attention_mask: Tensor | None = None,
          **options: Any) -> Tensor | None:  # fmt: skip
    """None, [batch, keys] of those that are no padding, or [batch, 1, queries, keys] of those that are attended."""
    ends_together = q_offset + q_length == kv_offset + kv_length
    if not ends_together or not _is_plain(mask_function):
        options["allow_is_causal_skip"] = options["allow_is_bidirectional_skip"] = False
        return masks.sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **options)
    if attention_mask is None:
        return None
    present = attention_mask[:, -kv_length:].bool()
    return None if present.all() else present


class _Attention:
    """The function that transformers calls, and the patterns that it has made."""

    def __init__(self, pattern: Set | None) -> None:
        self.pattern = pattern
        self.made: dict[tuple[Any, ...], Pattern] = {}
        self.__name__ = "weft_attention"

    def __call__(self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
                 dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None,
                 sliding_window: int | None = None, softcap: float | None = None, s_aux: Tensor | None = None,
                 position_bias: Tensor | None = None, **options: Any) -> tuple[Tensor, None]:  # fmt: skip
        """query [batch, heads, tokens, dim], key and value [batch, kv heads, keys, dim]; the result [batch, tokens, heads, dim]."""
        if options.get("output_attentions"):
            raise ArgumentError("attention weights are not made; load the model with attn_implementation='eager' for them")
        batch, heads = query.shape[:2]
        inputs: dict[str, Tensor] = {}
        is_table = attention_mask is not None and attention_mask.dim() == 4
        if attention_mask is not None and not is_table:
            inputs["present"] = attention_mask.to(torch.uint8)
        if attention_mask is not None and is_table:
            # Heads that share a mask read one.
            whole = attention_mask.expand(batch, -1, -1, -1)
            if whole.dtype == torch.bool:
                inputs["mask" if whole.shape[1] > 1 else "mask_of_all"] = whole.to(torch.uint8).squeeze(1)
            else:
                inputs["bias"] = whole.float().expand(batch, heads, -1, -1)
        if position_bias is not None:
            inputs["bias"] = position_bias.float().expand(batch, heads, -1, -1) + inputs.get("bias", 0)
        if s_aux is not None:
            inputs["sinks"] = s_aux.float()
        causal = (getattr(module, "is_causal", True) if is_causal is None else is_causal) and not is_table
        window = None if is_table else sliding_window
        pattern = self.pattern_of(causal, window, softcap, tuple(sorted(inputs)))
        out = attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), pattern, scale=scaling,
                        inputs={name: x.contiguous() for name, x in inputs.items()} or None, dropout=dropout)  # fmt: skip
        return out, None

    def pattern_of(self, *said: Any) -> Pattern:
        if said not in self.made:
            self.made[said] = Pattern.parse(_text(self.pattern, *said))
        return self.made[said]


_INPUTS = {
    "present": ("u8[batch, keys]", "keep where(present[b, k] != 0);"),
    "mask": ("u8[batch, heads, queries, keys]", "keep where(mask[b, h, q, k] != 0);"),
    "mask_of_all": ("u8[batch, queries, keys]", "keep where(mask_of_all[b, q, k] != 0);"),
    "bias": ("f32[batch, heads, queries, keys]", ""),
    "sinks": ("f32[heads]", "sink_logit sinks[h];"),
}


def _text(pattern: Set | None, causal: bool, window: int | None, softcap: float | None, inputs: tuple[str, ...]) -> str:
    lines = [_INPUTS[name][1] for name in inputs]
    if pattern is not None:
        lines.append(f"branch {pattern.text};")
    elif window is not None:
        lines.append(f"keep window({window - 1}, {0 if causal else window - 1});")
    elif causal:
        lines.append("keep causal;")
    score = "s" if softcap is None else f"softcap(s, {float(softcap)!r})"
    if "bias" in inputs:
        score += " + bias[b, h, q, k]"
    if score != "s":
        lines.append(f"score {score};")
    return text_of("transformers", {name: _INPUTS[name][0] for name in inputs}, lines)
