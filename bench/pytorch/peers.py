"""What users of PyTorch have for the same patterns. Tensors are [batch, heads, tokens, dim], on any device."""

import time

import torch
from torch._functorch import config as functorch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

aten = torch.ops.aten
SDPA = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
MATH_BYTES = 8 << 30  # the scores that the math backend may write
functorch.donated_buffer = False  # a backward pass is run again and again


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def sdpa(backend, q, k, v, causal):
    shared = k.shape[1] != q.shape[1]

    def run():
        with sdpa_kernel(SDPA[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)

    return run


def attend_with_lse(backend, q, k, v, causal):
    """O and its LSE, [batch, heads, rows]."""
    if backend == "cuDNN":
        out, lse = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)[:2]
    elif q.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)[:2]
    else:
        out, lse = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)[:2]
    return out, lse.reshape(q.shape[:3])


# ---------------------------------------------------------------- LongNet: gather, SDPA, merge


def rows_of_branch(tokens, heads, segment, rate, device):
    """Heads that keep equally many rows of a segment together: (numbers of heads, their rows [heads, segments, kept])."""
    segment = min(segment, tokens)
    if tokens % segment != 0:
        raise ValueError(f"{tokens} tokens are no multiple of segments of {segment}")
    begins = torch.arange(0, tokens, segment, device=device)
    groups = {}
    for head in range(heads):
        phase = head % rate
        groups.setdefault((segment - phase + rate - 1) // rate, []).append((head, phase))
    for kept, members in groups.items():
        phases = torch.tensor([phase for _, phase in members], device=device)
        inside = phases[:, None] + rate * torch.arange(kept, device=device)
        yield [head for head, _ in members], begins[None, :, None] + inside[:, None, :]


def gather_merge(backend, workload, q, k, v):
    """Branch by branch: gather its rows, attend, and mix the outputs by their softmax denominators, as the paper does."""
    batch, heads, tokens, dim = q.shape
    groups = [group for segment, rate in zip(workload.segments, workload.rates)
              for group in rows_of_branch(tokens, heads, segment, rate, q.device)]
    numbers = [(torch.tensor(of, device=q.device), len(of) == heads, rows.flatten(1), rows.shape) for of, rows in groups]

    def attend(number):
        of, all_heads, flat, (count, segments, kept) = number
        index = flat[None, :, :, None].expand(batch, count, segments * kept, dim)
        take = lambda x: (x if all_heads else x[:, of]).gather(2, index).reshape(batch * count, segments, kept, dim)
        out, lse = attend_with_lse(backend, take(q), take(k), take(v), workload.causal)
        return index, out.reshape(batch, count, -1, dim), lse.reshape(batch, count, -1)

    def run():
        parts = [attend(number) for number in numbers]
        lses = q.new_full((len(parts), batch, heads, tokens), -torch.inf, dtype=torch.float32)
        for i, (number, (index, _, lse)) in enumerate(zip(numbers, parts)):
            rows = number[2][None].expand(batch, -1, -1)
            lses[i, :, number[0]] = lses[i, :, number[0]].scatter(2, rows, lse.float())
        whole = torch.logsumexp(lses, 0)
        total = q.new_zeros((batch, heads, tokens, dim), dtype=torch.float32)
        for number, (index, out, lse) in zip(numbers, parts):
            of, all_heads, flat, _ = number
            rows = flat[None].expand(batch, -1, -1)
            weight = torch.exp(lse.float() - whole[:, of].gather(2, rows))
            weighted = weight[..., None] * out.float()
            if all_heads:
                total.scatter_add_(2, index, weighted)
            else:
                total[:, of] = total[:, of].scatter_add(2, index, weighted)
        return total.to(q.dtype)

    return run


# ---------------------------------------------------------------- FlexAttention


def branches_that_keep(workload, h, q, k):
    count = 0
    for segment, rate in zip(workload.segments, workload.rates):
        phase = h % rate
        kept = (q // segment == k // segment) & (q % segment % rate == phase) & (k % segment % rate == phase)
        count = count + kept.to(torch.float32)
    return count


def in_neighborhood(workload, side=64):
    """NATTEN's: of the places that a step of `dilation` reaches, those `width` nearest that the grid has."""
    rate, width = workload.dilation, workload.width

    def near(x, y):
        inside, count = x // rate, (side - x % rate + rate - 1) // rate
        start = (inside - width // 2).clamp(min=0)
        start = torch.minimum(start, count - width)
        at = y // rate
        return (y % rate == x % rate) & (at >= start) & (at < start + width)

    return lambda b, h, q, k: near(q // side, k // side) & near(q % side, k % side)


def mask_of(workload, inputs):
    """A mask_mod; None: everything is kept."""
    causal = lambda b, h, q, k: q >= k
    if workload.kind == "dense":
        return causal if workload.causal else None
    if workload.kind == "window":
        return lambda b, h, q, k: (q >= k) & (q - k < workload.width)
    if workload.kind == "documents":
        numbers = inputs["number"]
        return lambda b, h, q, k: (q >= k) & (numbers[b, q] == numbers[b, k])
    if workload.kind == "neighborhood":
        return in_neighborhood(workload)
    if workload.kind == "bigbird":
        table = inputs["table"]
        return lambda b, h, q, k: table[h, q // workload.block, k // workload.block]
    if workload.causal:
        return lambda b, h, q, k: (q >= k) & (branches_that_keep(workload, h, q, k) > 0)
    return lambda b, h, q, k: branches_that_keep(workload, h, q, k) > 0


def flex(workload, q, k, v, inputs, compiled):
    """Its function, and how long the mask took to make, in ms (None: there is none)."""
    score = None
    if workload.kind == "longnet":
        score = lambda s, b, h, q, k: s + torch.log(branches_that_keep(workload, h, q, k))
    mask, mask_ms = mask_of(workload, inputs), None
    block_mask = None
    if mask is not None:
        begin = time.perf_counter()
        make = torch.compile(create_block_mask) if compiled else create_block_mask
        heads = q.shape[1] if workload.kind in ("longnet", "bigbird") else None
        block_mask = make(mask, q.shape[0] if workload.kind == "documents" else None, heads, q.shape[2], k.shape[2],
                          device=str(q.device))
        wait(q.device)
        mask_ms = (time.perf_counter() - begin) * 1e3
    function = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention
    return lambda: function(q, k, v, score_mod=score, block_mask=block_mask), mask_ms


# ---------------------------------------------------------------- what flash itself has


def flash_window(workload, q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    tokens = q.shape[1]
    return lambda: aten._flash_attention_forward(q, k, v, None, None, tokens, tokens, 0.0, True, False,
                                                 window_size_left=workload.width - 1,
                                                 window_size_right=0)[0].transpose(1, 2)


def flash_packed(workload, q, k, v):
    bounds = [0]
    for length in workload.documents:
        bounds.append(bounds[-1] + length)
    bounds = torch.tensor(bounds, dtype=torch.int32, device=q.device)
    q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
    most = max(workload.documents)
    return lambda: aten._flash_attention_forward(q, k, v, bounds, bounds, most, most, 0.0, True,
                                                 False)[0].transpose(0, 1)[None]


# ---------------------------------------------------------------- dilated-attention-pytorch


def dilated_package(workload, q, k, v):
    """The package, with SDPA where it calls xformers, which has no kernels for CPUs. It divides outputs by their sum,
    which the pattern does not: times are compared, not results."""
    import sys
    import types

    def attend(query, key, value, op=None, attn_bias=None):
        swap = lambda x: x.transpose(1, 2)
        return swap(torch.nn.functional.scaled_dot_product_attention(swap(query), swap(key), swap(value),
                                                                     is_causal=attn_bias is not None))

    if "xformers" not in sys.modules:
        ops = types.ModuleType("xformers.ops")
        ops.memory_efficient_attention, ops.LowerTriangularMask, ops.AttentionOp = attend, object, object
        sys.modules["xformers"], sys.modules["xformers.ops"] = types.ModuleType("xformers"), ops
        sys.modules["xformers"].ops = ops
    from dilated_attention_pytorch.dilated_attention import DilatedAttention

    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    attention = DilatedAttention(list(workload.segments), list(workload.rates))
    return lambda: attention(q, k, v).transpose(1, 2)


def peers_of(workload, device, compiled=None):
    """Names, and what makes each of them from (q, k, v, inputs): a function, or that and its milliseconds of planning."""
    gpu = device.type == "cuda"
    compiled = gpu if compiled is None else compiled
    if workload.kind == "dense":
        scores = workload.batch * workload.heads * workload.tokens**2 * 4
        for backend in SDPA if gpu else ("flash", ) if compiled else ("math", ):
            if backend != "math" or scores <= MATH_BYTES:
                yield f"SDPA {backend}", lambda q, k, v, i, b=backend: sdpa(b, q, k, v, workload.causal)
    if workload.kind == "longnet":
        for backend in ("cuDNN", "flash") if gpu else ("flash", ):
            yield f"gather + {backend} + merge", lambda q, k, v, i, b=backend: gather_merge(b, workload, q, k, v)
    if workload.kind == "window" and gpu:
        yield "flash with a window", lambda q, k, v, i: flash_window(workload, q, k, v)
    if workload.kind == "documents" and gpu:
        yield "flash, packed", lambda q, k, v, i: flash_packed(workload, q, k, v)
    if workload.kind == "groups":
        yield "dilated-attention-pytorch", lambda q, k, v, i: dilated_package(workload, q, k, v)
    elif not workload.queries:
        yield "FlexAttention", lambda q, k, v, i: flex(workload, q, k, v, i, compiled)
