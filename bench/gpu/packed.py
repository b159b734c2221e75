#!/usr/bin/env python3
"""Packed sequences of different lengths on a GPU, both passes, beside PyTorch's varlen_attn (FlashAttention 2), in one run.
Needs what bench.py needs.

    ./dev build --gpu-only
    python3 bench/gpu/packed.py [--library FILE] [--host-check]

Patterns are causal. "decode": one query for each sequence, 32 heads on 8 of K and V at d 128, which only Weft packs here.
--host-check compares results on the CPU instead, with build/libweft.so.
"""

import argparse
import ctypes as c
import pathlib
import random
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/pytorch"))

from contenders import Weft, plain
from library import Library
from workload import Workload


def cases(scale=1):
    """Lengths of queries and keys; heads, heads of K and V, dim."""
    draw = random.Random(1)
    even = lambda count, n: [(n // scale, n // scale)] * count
    mixed = [(n // scale, n // scale) for n in draw.choices((100, 200, 400, 700, 1500, 3000), (8, 8, 6, 4, 3, 1), k=64)]
    decode = lambda count, least, most: [(1, draw.randint(least, most) // scale) for _ in range(count)]
    of_training, of_decoding = (16, 16, 64), (32, 8, 128)
    yield "64 of 512", even(64, 512), of_training
    yield "256 of 128", even(256, 128), of_training
    yield "16 of 2048", even(16, 2048), of_training
    yield "64 of 100 to 3000", mixed, of_training
    yield "decode, 64", decode(64, 500, 4000), of_decoding
    yield "decode, 8", decode(8, 2000, 8000), of_decoding


def borders(lengths):
    out = [0]
    for n in lengths:
        out.append(out[-1] + n)
    return out


class Packed:
    """Tensors of one case, and Weft's launches."""

    def __init__(self, torch, weft, lengths, sizes, target):
        heads, kv_heads, dim = sizes
        self.torch = torch
        self.cu_q, self.cu_k = borders(n for n, _ in lengths), borders(n for _, n in lengths)
        self.pairs = sum(n_q * n_k - n_q * (n_q - 1) // 2 for n_q, n_k in lengths)
        self.flops = 4 * self.pairs * heads * dim
        make = lambda rows, h: torch.randn(1, rows, h, dim, device=weft.device).half()
        self.q, self.k, self.v = make(self.cu_q[-1], heads), make(self.cu_k[-1], kv_heads), make(self.cu_k[-1], kv_heads)
        self.d_out, self.out = torch.randn_like(self.q), torch.full_like(self.q, float("nan"))
        self.lse = torch.empty(1, heads, self.cu_q[-1], device=weft.device)
        self.gradients = [torch.full_like(x, float("nan")) for x in (self.q, self.k, self.v)]
        workload = Workload("packed", "dense", self.cu_k[-1], heads, dim, causal=True, dtype="f16", kv_heads=kv_heads)
        given = [plain(x, "f16") for x in (self.q, self.k, self.v, self.out)]
        numbers = [(c.c_int64 * len(x))(*x) for x in (self.cu_q, self.cu_k)]
        more = {"stream": weft.stream(), "lse": plain(self.lse, "f32"), "cu_q_count": len(self.cu_q), "cu_k_count": len(self.cu_k),
                "cu_q": c.cast(numbers[0], c.c_void_p), "cu_k": c.cast(numbers[1], c.c_void_p)}
        dq, dk, dv = (plain(x, "f16") for x in self.gradients)
        self.kernels = [weft.compile(workload, target, gradient)[0] for gradient in (False, True)]
        self.forward = self.kernels[0].launch(*given, **more)
        self.backward = self.kernels[1].launch(*given, **more, d_out=plain(self.d_out, "f16"), dq=dq, dk=dk, dv=dv)
        self.keeps = numbers

    def peer(self):
        """O of varlen_attn, and functions that run it and its backward pass."""
        from torch.nn.attention.varlen import varlen_attn

        q, k, v = (x[0].clone().requires_grad_() for x in (self.q, self.k, self.v))
        i32 = lambda x: self.torch.tensor(x, dtype=self.torch.int32, device=q.device)
        longest = [max(b - a for a, b in zip(x, x[1:])) for x in (self.cu_q, self.cu_k)]
        given = (q, k, v, i32(self.cu_q), i32(self.cu_k), *longest)
        try:
            run = lambda: varlen_attn(*given, is_causal=True)
            out = run()
        except TypeError:  # newer ones
            run = lambda: varlen_attn(*given, window_size=(-1, 0))
            out = run()
        return out, run, lambda: self.torch.autograd.grad(out, (q, k, v), self.d_out[0], retain_graph=True)


def milliseconds(torch, run):
    def sample(count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count

    count = max(1, round(10 / max(sample(2), 1e-3)))
    return statistics.median(sample(count) for _ in range(5))


def measure(torch, weft):
    for name, lengths, sizes in cases():
        packed = Packed(torch, weft, lengths, sizes, "cuda")
        trained = sizes[0] == sizes[1]
        rows = [("Weft", packed.forward, packed.backward)]
        try:
            out, run, backward = packed.peer() if trained else (None, None, None)
        except (ImportError, RuntimeError) as error:
            print(f"varlen_attn: {str(error).splitlines()[0]}")
            run = None
        packed.forward()
        if run is not None:
            rows.append(("varlen_attn", run, backward))
            print(f"{name}: differs by {(out.float() - packed.out[0].float()).abs().max().item():.1e}")
        for who, forward, backward in rows:
            ms = milliseconds(torch, forward)
            line = f"{name:<18} {who:<12} forward {ms:8.3f} ms {packed.flops / ms / 1e9:7.1f} TFLOP/s"
            if trained:
                ms = milliseconds(torch, backward)
                line += f", backward {ms:8.3f} ms {2.5 * packed.flops / ms / 1e9:7.1f} TFLOP/s"
            print(line, flush=True)


def host_check(torch, weft):
    """Each sequence alone, by SDPA: are the borders, and the pairs that are counted, right?"""
    wrong = 0
    for name, lengths, sizes in cases(scale=20):
        packed = Packed(torch, weft, lengths, sizes, "cpu")
        packed.forward()
        packed.backward()
        most = 0.0
        for b, (n_q, n_k) in enumerate(lengths):
            cut = lambda x, cu: x[0, cu[b]:cu[b + 1]].float().transpose(0, 1)
            q, k, v = cut(packed.q, packed.cu_q), cut(packed.k, packed.cu_k), cut(packed.v, packed.cu_k)
            kept = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
            group = sizes[0] // sizes[1]
            want = torch.nn.functional.scaled_dot_product_attention(q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0),
                                                                    attn_mask=kept)
            most = max(most, (want - cut(packed.out, packed.cu_q)).abs().max().item())
        good = most < 4e-3 and all(x.isfinite().all() for x in packed.gradients)
        wrong += not good
        print(f"{name:<18} {packed.pairs:>9} pairs  {most:.1e}{'' if good else '  wrong'}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libweft.so; default: that of ./dev build --gpu-only")
    parser.add_argument("--host-check", action="store_true", help="compare results on the CPU, measure nothing")
    given = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("bench/gpu: skipped: PyTorch is not installed: pip install torch")
        return 0
    if not given.host_check and not torch.cuda.is_available():
        print("bench/gpu: skipped: PyTorch sees no GPU here")
        return 0
    folder = "build" if given.host_check else "build-gpu-only"
    library = Library(given.library or str(ROOT / folder / "libweft.so"))
    weft = Weft(torch, library, torch.device("cpu") if given.host_check else torch.device("cuda", 0))
    if given.host_check:
        return host_check(torch, weft)
    print(f"{torch.cuda.get_device_name(0)}; Weft {library.version}; PyTorch {torch.__version__}; f16, causal")
    measure(torch, weft)
    return 0


if __name__ == "__main__":
    sys.exit(main())
