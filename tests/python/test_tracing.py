"""Functions that are traced: mask_mods and score_mods as FlexAttention has them, against the same in NumPy."""

import inspect

import numpy as np
import pytest
from reference import attend, bound, positions

import weft

N = 48
Q, K = positions(N, N)
HEADS = np.arange(4)[:, None, None]


def prefix_lm(b, h, q_idx, kv_idx):
    return (kv_idx < 10) | (q_idx >= kv_idx)


def sliding(b, h, q_idx, kv_idx):
    causal = q_idx >= kv_idx
    near = q_idx - kv_idx <= 7
    return causal & near


def dilated_window(b, h, q_idx, kv_idx):
    diff = abs(q_idx - kv_idx)
    return (diff <= 12) & ((diff % 3) == 0) & (kv_idx <= q_idx)


def by_head(b, h, q_idx, kv_idx):
    return weft.select(h % 2 == 0, q_idx - kv_idx, kv_idx - q_idx) >= 0


def chunked(b, h, q_idx, kv_idx):
    return (q_idx // 16 == kv_idx // 16) & ~(kv_idx > q_idx)


MASKS = {
    prefix_lm: (K < 10) | (Q >= K),
    sliding: (Q >= K) & (Q - K <= 7),
    dilated_window: (abs(Q - K) <= 12) & (abs(Q - K) % 3 == 0) & (K <= Q),
    by_head: np.where(HEADS % 2 == 0, Q - K, K - Q) >= 0,
    chunked: (Q // 16 == K // 16) & (K <= Q),
}


@pytest.mark.parametrize("mask_mod", MASKS, ids=lambda function: function.__name__)
def test_mask_mods(tensors, mask_mod):
    q, k, v = tensors(n_q=N)
    found = weft.attention(q, k, v, weft.where(mask_mod))
    np.testing.assert_allclose(found, attend(q, k, v, [MASKS[mask_mod]])[0], atol=bound(v, N))


def alibi(score, b, h, q_idx, kv_idx):
    return score + weft.alibi(h) * (kv_idx - q_idx)


def soft_cap(score, b, h, q_idx, kv_idx):
    return 5.0 * weft.tanh(score / 5.0)


def distance(score, b, h, q_idx, kv_idx):
    return score - (q_idx - kv_idx) / 16


def penalty(score, b, h, q_idx, kv_idx):
    return score - 0.5 * ((q_idx - kv_idx) // 8) ** 2 * (1 + h)


def squashed(score, b, h, q_idx, kv_idx):
    return np.where(q_idx > kv_idx, np.minimum(score, 1.0), -score)


SCORES = {
    alibi: lambda s: s + 2.0 ** (-2.0 * (HEADS + 1)) * (K - Q),
    soft_cap: lambda s: 5 * np.tanh(s / 5),
    distance: lambda s: s - (Q - K) / 16,
    penalty: lambda s: s - 0.5 * ((Q - K) // 8) ** 2 * (1 + HEADS),
    squashed: lambda s: np.where(Q > K, np.minimum(s, 1.0), -s),
}


@pytest.mark.parametrize("score_mod", SCORES, ids=lambda function: function.__name__)
def test_score_mods(tensors, score_mod):
    q, k, v = tensors(n_q=N)
    found = weft.attention(q, k, v, weft.pattern(keep=weft.causal, score=score_mod))
    want, _ = attend(q, k, v, [K <= Q], score=SCORES[score_mod])
    np.testing.assert_allclose(found, want, atol=bound(v, N, 80))


def test_inputs_are_indexed(tensors, rng):
    q, k, v = tensors(n_q=N)
    bias, document = weft.input("bias", "f32", "heads", 2 * N), weft.input("doc", "i32", "batch", "tokens")
    made = weft.pattern(
        weft.where(lambda b, q, k: (document[b, q] == document[b, k]) & (q >= k)),
        score=lambda s, h, q, k: s + bias[h, q - k + N],
    )
    given = {"bias": rng.standard_normal((4, 2 * N)).astype(np.float32), "doc": np.sort(rng.integers(0, 4, (2, N)).astype(np.int32))}
    mask = (given["doc"][:, None, :, None] == given["doc"][:, None, None, :]) & (K <= Q)
    want, _ = attend(q, k, v, [mask], score=lambda s: s + given["bias"][HEADS, Q - K + N])
    np.testing.assert_allclose(weft.attention(q, k, v, made, inputs=given), want, atol=bound(v, N))


def test_precedence_is_kept():
    q, k, s = (weft.Expression(name, kind=kind) for name, kind in (("q", "int"), ("k", "int"), ("s", "real")))
    for made, text in (
        (q - (k - 1), "q - (k - 1)"),
        (q - k - 1, "q - k - 1"),
        (q * (k + 1) % 3, "q * (k + 1) % 3"),
        (q // (2 * k), "q / (2 * k)"),
        (q / k, "1.0 * q / k"),
        (s // 2, "floor(s / 2)"),
        (-(q - k), "-(q - k)"),
        (2 - q, "2 - q"),
        (-1 * q, "-1 * q"),
        (~((q < k) | (q > 3)), "not (q < k or q > 3)"),
        ((q < k) & ((q > 3) | (k == 1)), "q < k and (q > 3 or k == 1)"),
        (q**3, "q * q * q"),
        (s**0.5, "sqrt(s)"),
        (abs(q - k), "abs(q - k)"),
        (weft.maximum(q, 1), "max(q, 1)"),
        (np.float32(0.5) * s, "0.5 * s"),
    ):
        assert made.text == text


REFUSED = {
    "and": (lambda: weft.where(lambda q, k: q > k and k > 3), TypeError, "write `&`, `|`, `~` for `and`, `or`, `not`"),
    "chained": (lambda: weft.where(lambda q, k: 0 <= q - k < 5), TypeError, r"\(a <= b\) & \(b < c\)"),
    "if": (lambda: weft.where(lambda q, k: q if q > k else k), TypeError, "weft.select"),
    "number": (lambda: weft.where(lambda q, k: q - k), TypeError, "wants a condition"),
    "condition": (lambda: weft.pattern(score=lambda s, q, k: q > k), TypeError, "a score is a number"),
    "no parentheses": (lambda: weft.where(lambda q, k: q & k), TypeError, "`&` of q, which is a number"),
    "argument": (lambda: weft.where(lambda x: x), TypeError, "the argument 'x'; expected some of b, h, q, k"),
    "score in a mask": (lambda: weft.where(lambda s: s > 0), TypeError, "the argument 's'"),
    "array": (lambda: weft.where(lambda q: np.arange(9)[q] > 0), TypeError, "declare weft.input"),
    "power": (lambda: weft.pattern(score=lambda s: s**1.5), TypeError, "the power 1.5"),
    "other function": (lambda: weft.pattern(score=lambda s: np.arctan(s)), TypeError, "'arctan' cannot be traced"),
    "text": (lambda: weft.pattern(score=lambda s: s + "1"), TypeError, "a str in a traced expression"),
    "no function": (lambda: weft.where(3), TypeError, "a int where a function"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_traced(case):
    call, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        call()


def test_errors_name_the_line_of_python():
    x = np.ones((1, 6, 2, 8), np.float32)
    made = weft.pattern(weft.where(lambda q, k: q / 2 >= k), score=lambda s, q: s / 2 + q)
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(weft.PatternError) as caught:
        weft.attention(x, x, x, made)
    assert "^" in str(caught.value)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert told.count("traced from") == 1 and f"<lambda> in {__file__}, line {line}" in told


def test_torch_functions_are_understood(tensors):
    torch = pytest.importorskip("torch")
    made = weft.pattern(keep=weft.causal, score=lambda score, q_idx, kv_idx: torch.where(q_idx > kv_idx, torch.tanh(score), -score))
    assert made.text.count("score select(q > k, tanh(s), -s);") == 1
