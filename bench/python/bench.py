"""What Python costs: a call of Weft over the launch in it, beside SDPA's own; and a step of training on the CPU, beside the same
model on SDPA over gathered tokens; and the memory of a long step. `./dev bench python` installs what is needed."""

import argparse
import resource
import subprocess
import sys
import timeit
from pathlib import Path

import numpy as np
import torch
import weft
from torch.nn.attention.flex_attention import create_block_mask
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from weft import _weft
from weft.torch import DilatedAttention, LongNetLM


def microseconds(function, calls):
    """The best of many short runs: what others do on the machine is not ours."""
    at_once = 20
    function()
    return min(timeit.repeat(function, number=at_once, repeat=max(1, calls // at_once))) / at_once * 1e6


def overhead(calls):
    q, k, v = (torch.randn(1, n, 1, 64) for n in (1, 16, 16))
    arrays = [x.numpy() for x in (q, k, v)]
    wanted = q.clone().requires_grad_()
    kernel = weft.compile("dense", heads=1, dim=64, dtype="f32")
    views = [_weft.View(x, name) for x, name in ((q, "q"), (k, "k"), (v, "v"), (torch.empty_like(q), "out"))]
    place = np.empty((1, 1, 1, 64), np.float32)

    def sdpa(x):
        return scaled_dot_product_attention(x.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))

    def there_and_back(function):
        wanted.grad = None
        function(wanted).sum().backward()

    run = microseconds(lambda: _weft.run_alone(kernel._core, *views, 1), calls)
    nothing = microseconds(lambda: there_and_back(lambda x: x * 2), calls)
    rows = [
        ("weft.attention, PyTorch", lambda: weft.attention(q, k, v, threads=1), run),
        ("kernel, PyTorch", lambda: kernel(q, k, v, threads=1), run),
        ("weft.attention, NumPy", lambda: weft.attention(*arrays, threads=1), run),
        ("kernel, NumPy, out=", lambda: kernel(*arrays, out=place, threads=1), run),
        ("SDPA", lambda: sdpa(q), 0),
        ("weft.attention, recording gradients", lambda: weft.attention(wanted, k, v, threads=1), run),
        ("SDPA, recording gradients", lambda: sdpa(wanted), 0),
        ("weft.attention and backward", lambda: there_and_back(lambda x: weft.attention(x, k, v, threads=1)), nothing),
        ("SDPA and backward", lambda: there_and_back(sdpa), nothing),
    ]
    print("one row of 16 keys, one head of 64, f32, one thread; microseconds a call\n")
    print(f"  the launch alone {run:.1f}; a backward pass of one product {nothing:.1f}\n")
    print(f"  {'call':38}{'all':>8}{'over that':>12}")
    for name, function, base in rows:
        took = microseconds(function, calls)
        print(f"  {name:38}{took:8.1f}{took - base:12.1f}" if base else f"  {name:38}{took:8.1f}")


def gathered(module):
    """Attention of `DilatedAttention`, causal, as SDPA over the tokens of each residue."""

    def attend(query, key, value, is_causal, inputs):
        assert is_causal and not inputs
        parts, first, groups = [], 0, module.num_groups
        batch, tokens, heads, dim = query.shape
        for i, (segment, rate) in enumerate(zip(module.segment_lengths, module.dilation_rates)):
            last = first + heads // groups + (i < heads % groups)
            q, k, v = (
                x[:, :, first:last].reshape(batch * tokens // segment, segment, last - first, dim)[:, i % rate :: rate].transpose(1, 2)
                for x in (query, key, value)
            )
            out = query.new_zeros(batch * tokens // segment, segment, last - first, dim)
            out[:, i % rate :: rate] = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
            parts.append(out.reshape(batch, tokens, last - first, dim))
            first = last
        return torch.cat(parts, 2) / groups

    return attend


def training(tokens, steps):
    torch.manual_seed(1)
    model = LongNetLM(256, 256, 4, 1, 1, 512, [tokens // 4, tokens // 2, tokens], [1, 2, 4])
    text = torch.randint(256, (1, tokens + 1))
    own = [module for module in model.modules() if isinstance(module, DilatedAttention)]

    def step():
        model.zero_grad()
        loss = cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        return loss.item()

    def switch(to_peer):
        for module in own:
            if to_peer:
                module.attend = gathered(module)
            else:
                module.__dict__.pop("attend", None)

    seconds, losses = {False: [], True: []}, {}
    for peer in (False, True):
        switch(peer)
        losses[peer] = step()
    for _ in range(steps):
        for peer in (False, True):
            switch(peer)
            seconds[peer].append(timeit.timeit(step, number=1))
    weft_ms, peer_ms = (min(seconds[peer]) * 1e3 for peer in (False, True))
    print(f"\na step of LongNetLM, {tokens} tokens, 1 + 1 layers of width 256, {torch.get_num_threads()} threads, in turns\n")
    print(f"  Weft {weft_ms:.0f} ms, SDPA over gathered tokens {peer_ms:.0f} ms: {peer_ms / weft_ms:.2f} times as fast")
    print(f"  losses {losses[False]:.6f} and {losses[True]:.6f}")


# ---- memory of a step: each alone in a process, whose peak the system knows ----


def peak_over(tokens, setup, step):
    """Bytes that the process held at most while `step` ran, over what it held before."""
    step(*setup(1024))  # what compilers hold is not the step's
    given = setup(tokens)
    available = next(int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + available * 9 // 10,) * 2)  # rather an error than a machine that swaps
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    seconds = timeit.timeit(lambda: step(*given), number=1)
    peak = next(int(line.split()[1]) << 10 for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(f"{peak - before} {seconds}")


def alone_weft(tokens):
    def setup(tokens):
        return [torch.randn(1, tokens, 1, 64, requires_grad=True) for _ in range(3)]

    def step(q, k, v):
        weft.attention(q, k, v, "longnet", segments=[tokens // 16, tokens // 4], rates=[4, 16]).sum().backward()

    peak_over(tokens, setup, step)


def alone_mask(tokens):
    """The same pairs as FlexAttention is told of them, before it computes anything."""

    def mask(b, h, q, k):
        found = None
        for segment, rate in ((tokens // 16, 4), (tokens // 4, 16)):
            one = (q // segment == k // segment) & (q % segment % rate == 0) & (k % segment % rate == 0) & (k <= q)
            found = one if found is None else found | one
        return found

    peak_over(tokens, lambda tokens: (tokens,), lambda tokens: create_block_mask(mask, None, None, tokens, tokens, device="cpu"))


def memory(tokens):
    print(f"\na step of LongNet attention, {tokens} tokens, one head of 64, f32: bytes over those of q, k and v at the peak\n")
    for name, what in (("weft", "Weft, forward and backward"), ("mask", "FlexAttention, the mask alone (create_block_mask)")):
        done = subprocess.run([sys.executable, __file__, "--alone", name, "--memory-tokens", str(tokens)], capture_output=True, text=True)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"killed by signal {-done.returncode}"])[-1]
            print(f"  {what:52} did not end: {last[:120]}")
            continue
        peak, seconds = done.stdout.split()
        print(f"  {what:52}{int(peak) / 2**20:10.0f} MB{float(seconds):8.1f} s")
    print(f"  {'the gradients of q, k and v':52}{3 * tokens * 64 * 4 / 2**20:10.0f} MB")


ALONE = {"weft": alone_weft, "mask": alone_mask}

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=20000, help="calls of each timing")
    options.add_argument("--tokens", type=int, default=4096, help="tokens of the training step")
    options.add_argument("--steps", type=int, default=5, help="steps of each, in turns")
    options.add_argument("--memory-tokens", type=int, default=65536, help="tokens of the step whose memory is looked at; 0: none")
    options.add_argument("--alone", choices=ALONE, help="of that, one, in this process")
    given = options.parse_args()
    if given.alone:
        sys.exit(ALONE[given.alone](given.memory_tokens))
    print(f"PyTorch {torch.__version__}, Weft {weft.__version__}")
    overhead(given.calls)
    training(given.tokens, given.steps)
    if given.memory_tokens:
        memory(given.memory_tokens)
