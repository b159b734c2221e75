"""What Python costs: a call of Weft over the launch in it, beside SDPA's own; and a step of training on the CPU, beside the same
model on SDPA over gathered tokens. `./dev bench python` installs what is needed."""

import argparse
import timeit

import numpy as np
import torch
import weft
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


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=20000, help="calls of each timing")
    options.add_argument("--tokens", type=int, default=4096, help="tokens of the training step")
    options.add_argument("--steps", type=int, default=5, help="steps of each, in turns")
    given = options.parse_args()
    print(f"PyTorch {torch.__version__}, Weft {weft.__version__}")
    overhead(given.calls)
    training(given.tokens, given.steps)
