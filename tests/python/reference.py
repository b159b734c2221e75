"""Attention as docs/semantics.md says it, in NumPy and f64, written apart from Weft: pairs are enumerated, nothing is
planned. Shapes: q [B, n_q, H, d]; a branch is a mask that broadcasts to [B, H, n_q, n_k]."""

from __future__ import annotations

import numpy as np


def positions(n_q: int, n_k: int, offset: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Section 1: columns of query positions, rows of key positions; aligned at the end."""
    first = n_k - n_q if offset is None else offset
    return np.arange(n_q)[:, None] + first, np.arange(n_k)[None, :]


def scores(q, k, scale=None):
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    k = np.repeat(k, q.shape[2] // k.shape[2], axis=2)
    return np.einsum("bqhd,bkhd->bhqk", q, k) * (1 / np.sqrt(q.shape[3]) if scale is None else scale)


def softmax(multiplicity, s, sink=None):
    """Section 2: weights and LSE of m * exp(s); rows without weight give 0 and -inf."""
    s = np.where(multiplicity > 0, s, -np.inf)
    top = np.max(s, axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = multiplicity * np.exp(s - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - top)
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0]) + top[..., 0]
    return weights / np.where(total > 0, total, 1.0), lse


def values(q, v):
    return np.repeat(np.asarray(v, np.float64), q.shape[2] // v.shape[2], axis=2)


def attend(q, k, v, branches, combine="joint", scale=None, score=None, sink=None):
    """O [B, n_q, H, d_v] and LSE [B, H, n_q]; with `sum` and `mean` no LSE. `score(s)` rewrites [B, H, n_q, n_k]."""
    s = scores(q, k, scale)
    s = s if score is None else score(s)
    masks = [np.broadcast_to(mask, s.shape).astype(np.float64) for mask in branches]
    v = values(q, v)
    if combine in ("sum", "mean"):
        parts = [np.einsum("bhqk,bkhd->bqhd", softmax(mask, s)[0], v) for mask in masks]
        return sum(parts) / (len(masks) if combine == "mean" else 1), None
    multiplicity = np.minimum(sum(masks), 1.0) if combine == "union" else sum(masks)
    weights, lse = softmax(multiplicity, s, sink)
    return np.einsum("bhqk,bkhd->bqhd", weights, v), lse


def gradients(q, k, v, branches, d_out, combine="joint", scale=None):
    """dQ, dK, dV of sum(d_out * O), from dS = P (dP - rowsum(P dP)); softmax for each branch with `sum` and `mean`."""
    factor = 1 / np.sqrt(q.shape[3]) if scale is None else scale
    s, d_out = scores(q, k, scale), np.asarray(d_out, np.float64)
    masks = [np.broadcast_to(mask, s.shape).astype(np.float64) for mask in branches]
    if combine == "mean":
        d_out = d_out / len(masks)
    if combine in ("sum", "mean"):
        parts = masks
    else:
        parts = [np.minimum(sum(masks), 1.0) if combine == "union" else sum(masks)]
    group = q.shape[2] // k.shape[2]
    d_weights = np.einsum("bqhd,bkhd->bhqk", d_out, values(q, v))
    d_scores, d_values = 0.0, 0.0
    for part in parts:
        weights = softmax(part, s)[0]
        d_scores = d_scores + weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True))
        d_values = d_values + np.einsum("bhqk,bqhd->bkhd", weights, d_out)
    dq = factor * np.einsum("bhqk,bkhd->bqhd", d_scores, values(q, k))
    dk = factor * np.einsum("bhqk,bqhd->bkhd", d_scores, np.asarray(q, np.float64))

    def shared(x):
        batch, n, heads, dim = x.shape
        return x.reshape(batch, n, heads // group, group, dim).sum(3)

    return dq, shared(dk), shared(d_values)


def bound(v, n, s=8.0, dtype="f32"):
    """Section 10, of O."""
    largest = float(np.abs(np.asarray(v, np.float64)).max())
    share = {"f32": 2e-6 * (1 + np.log2(max(n, 2))), "f16": 2e-3, "bf16": 1.6e-2}[dtype]
    return largest * (share + 2e-7 * s)


def by_groups(heads: int, count: int, index: int, last: bool = False) -> np.ndarray:
    """Section 4: which heads branch `index` of `count` runs on, as a mask [H, 1, 1]."""
    sizes = [heads // count] * count
    for extra in range(heads % count):
        sizes[count - 1 - extra if last else extra] += 1
    first = sum(sizes[:index])
    h = np.arange(heads)[:, None, None]
    return (first <= h) & (h < first + sizes[index])


def dilated(q, k, segment, rate, phase, every_query=False):
    """Section 3; `phase` may be an array over heads."""
    same = q // segment == k // segment
    keys = (k % segment) % rate == phase % rate
    return same & keys if every_query else same & keys & ((q % segment) % rate == phase % rate)


def neighborhood(q, k, n, size):
    """Section 6, with dilation and stride 1."""
    start = np.clip(q - size // 2, 0, n - size)
    return (start <= k) & (k < start + size)
