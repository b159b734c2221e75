"""Rings over torch.distributed: ranks are processes, with Gloo."""

import os
import time
import traceback

import pytest

torch = pytest.importorskip("torch")

import weft
import weft.torch
from weft.torch import RingDilatedAttention, RingDilatedAttentionV2

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

RANKS, TOKENS, HEADS, DIM = 3, 96, 4, 16


def _rank(rank, ranks, folder, work):
    """A process's whole life. What went wrong stands in a file, because a process has no other way to say it."""
    try:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
        work(rank, ranks)
        torch.distributed.destroy_process_group()
    except BaseException:
        with open(os.path.join(folder, f"rank-{rank}"), "w") as file:
            file.write(traceback.format_exc())
        os._exit(1)
    # The interpreter ends as any other does, with what the ring leaves behind: it must not abort.


def on_ranks(folder, work, ranks=RANKS):
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=_rank, args=(rank, ranks, str(folder), work)) for rank in range(ranks)]
    for process in processes:
        process.start()
    until = time.monotonic() + 120
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    stopped = [process.kill() for process in processes if process.is_alive()]
    wrong = [path.read_text() for path in folder.glob("rank-*")]
    assert not wrong and not stopped and all(process.exitcode == 0 for process in processes), "\n".join(wrong)


def whole(seed=0, heads=HEADS):
    """The same on every rank."""
    return [torch.randn(1, TOKENS, heads, DIM, generator=torch.Generator().manual_seed(seed + i)) for i in range(3)]


PATTERN = "pattern p { branches dilated(segments: [32, 96], rates: [1, 2], phase: h % rate); combine joint; keep causal; }"


def _trains(rank, ranks):
    q, k, v = (x.requires_grad_() for x in whole())
    want, want_lse = weft.attention(q, k, v, PATTERN, return_lse=True)
    (want.sin().sum() + want_lse.sum()).backward()
    plan = weft.torch.ring().plan(PATTERN, tokens=TOKENS, heads=HEADS, dim=DIM, gradient=True)
    own = [plan.own(x.detach()).clone().requires_grad_() for x in (q, k, v)]
    out, lse = plan(*own, return_lse=True)
    (out.sin().sum() + lse.sum()).backward()
    assert torch.equal(out, plan.own(want)) and torch.equal(lse, plan.own(want_lse, 2))
    for mine, of_all in zip(own, (q, k, v)):
        assert torch.equal(mine.grad, plan.own(of_all.grad))
    gathered = plan.gather(out.detach())
    assert (gathered is None) == (rank > 0) and (rank > 0 or torch.equal(gathered, want))
    for _ in range(3):  # further calls of the same plan
        assert torch.equal(plan(*(x.detach() for x in own)), plan.own(want))


def test_a_step_of_training_is_that_of_one_device(tmp_path):
    on_ranks(tmp_path, _trains)


def _trains_a_bias(rank, ranks):
    biased = "pattern biased { input bias: f32[heads]; keep causal; score s + bias[h] * (k - q); }"
    q, k, v = whole()
    bias, of_all = (torch.linspace(0.01, 0.1, HEADS).requires_grad_() for _ in range(2))
    weft.attention(q, k, v, biased, inputs={"bias": of_all}).sin().sum().backward()
    plan = weft.torch.ring().plan(biased, tokens=TOKENS, heads=HEADS, dim=DIM, inputs={"bias": bias}, gradient=True)
    plan(*(plan.own(x) for x in (q, k, v))).sin().sum().backward()  # nothing else wants a gradient
    # 4,656 terms of up to 95 times dS, half of which cancel: ranks add them in another order than one device does.
    torch.testing.assert_close(bias.grad, of_all.grad, rtol=2e-5, atol=5e-4)


def test_inputs_are_trained(tmp_path):
    on_ranks(tmp_path, _trains_a_bias)


def _uses_modules(rank, ranks):
    q, k, v = whole()
    with torch.no_grad():
        for made in (RingDilatedAttention([32, 96], [1, 2], ring_size=ranks), RingDilatedAttentionV2([32, 96], [1, 2])):
            for is_causal in (False, True):
                want = weft.attention(q, k, v, made._patterns.of(is_causal, {}), scale=made.softmax_scale)
                assert torch.equal(made(q, k, v, is_causal=is_causal), want)
    for made in (RingDilatedAttention([32, 96], [1, 2]), RingDilatedAttentionV2([32, 96], [1, 2])):
        found, want = ([x.clone().requires_grad_() for x in (q, k, v)] for _ in range(2))
        made(*found, is_causal=True).sin().sum().backward()
        weft.attention(*want, made._patterns.of(True, {}), scale=made.softmax_scale).sin().sum().backward()
        for one, other in zip(found, want):
            assert torch.equal(one.grad, other.grad)
    made = RingDilatedAttention([32, 96], [1, 2])
    with pytest.raises(weft.UnavailableError, match="neither masks"):
        made(q.detach(), k, v, attention_mask=torch.ones(TOKENS, TOKENS, dtype=torch.bool))


def test_modules_give_all_ranks_all_tokens(tmp_path):
    on_ranks(tmp_path, _uses_modules, 2)


def _uses_a_part(rank, ranks):
    some = torch.distributed.new_group([0, 2])
    if rank == 1:
        # Groups are made by all ranks, whoever is in them.
        torch.distributed.new_group([0, 2], backend="gloo")
        return
    q, k, v = whole()
    ring = weft.torch.ring(some, layout="zigzag")
    assert ring.ranks == 2 and ring.rank == rank // 2
    plan = ring.plan("causal", tokens=TOKENS, heads=HEADS, dim=DIM)
    out = plan(plan.own(q), plan.own(k), plan.own(v))
    assert torch.equal(out, plan.own(weft.attention(q, k, v, "causal")))


def test_a_ring_of_some_ranks(tmp_path):
    on_ranks(tmp_path, _uses_a_part)


def _loses_one(rank, ranks):
    q, k, v = whole()
    # Longer than the test waits: only the connection tells.
    plan = weft.torch.ring(timeout=600.0).plan("causal", tokens=TOKENS, heads=HEADS, dim=DIM)
    if rank == ranks - 1:
        os._exit(0)
    with pytest.raises(weft.UnavailableError, match=f"rank {ranks - 1}"):
        for _ in range(3):
            plan(plan.own(q), plan.own(k), plan.own(v))


def test_a_rank_that_dies_is_named(tmp_path):
    on_ranks(tmp_path, _loses_one)
