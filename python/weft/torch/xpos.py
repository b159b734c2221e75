"""xPos (Sun et al. 2022, "A Length-Extrapolatable Transformer"), with the state of torchscale's."""

from __future__ import annotations

import torch

Tensor = torch.Tensor


class Xpos(torch.nn.Module):
    """[…, tokens, dim], dim even: pairs of numbers turned by an angle of the position, and scaled from the middle of the tokens
    on. `downscale`, for keys: by the inverse, so that products depend on distances alone."""

    scale: Tensor

    def __init__(self, dim: int, base: float = 512) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("scale", (torch.arange(0, dim, 2) + 0.4 * dim) / (1.4 * dim))

    def forward(self, x: Tensor, downscale: bool = False) -> Tensor:
        tokens, pairs = x.shape[-2], x.shape[-1] // 2
        at = torch.arange(tokens, device=x.device, dtype=self.scale.dtype)
        angle = at[:, None] * 10000 ** (-torch.arange(pairs, device=x.device, dtype=self.scale.dtype) / pairs)
        grown = self.scale ** ((at + -tokens // 2) / self.base)[:, None]
        grown = 1 / grown if downscale else grown
        cos, sin = angle.cos() * grown, angle.sin() * grown
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
