"""Rings of threads: every rank's rows have the bits of one device."""

import itertools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft
import weft.ring

RANKS, TOKENS = 3, 100
WINDOW = "pattern p { keep window(20, 0); }"


def on_ranks(messengers, work, **options):
    """What `work(ring)` returns on each rank, in threads."""
    with ThreadPoolExecutor(len(messengers)) as pool:
        return list(pool.map(lambda messenger: work(weft.ring.Ring(messenger, **options)), messengers))


class Mailbox:
    """A messenger of this process, as a program would write one."""

    def __init__(self, rank, ranks, boxes):
        self.rank, self.ranks, self.boxes = rank, ranks, boxes
        self.requests, self.numbers, self.ended = {}, itertools.count(1), 0

    def send(self, peer, tag, data):
        self.boxes[self.rank, peer, tag].put(bytes(data))
        request = next(self.numbers)
        self.requests[request] = len(data)
        return request

    def receive(self, peer, tag, data):
        request = next(self.numbers)
        self.requests[request] = (peer, tag, data)
        return request

    def test(self, request):
        found = self.requests[request]
        if isinstance(found, int):
            return self.requests.pop(request)
        peer, tag, data = found
        try:
            came = self.boxes[peer, self.rank, tag].get_nowait()
        except queue.Empty:
            return None
        data[: len(came)] = came
        del self.requests[request]
        return len(came)

    def cancel(self, request):
        self.requests.pop(request, None)

    def end(self):
        self.ended += 1


class Boxes(dict):
    lock = threading.Lock()

    def __missing__(self, key):
        with self.lock:
            return self.setdefault(key, queue.SimpleQueue())


def mailboxes(ranks):
    boxes = Boxes()
    return [Mailbox(rank, ranks, boxes) for rank in range(ranks)]


@pytest.mark.parametrize("layout", ["auto", "contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("kind", [weft.ring.threads, mailboxes])
def test_rows_have_the_bits_of_one_device(tensors, kind, layout):
    q, k, v = tensors(n_q=TOKENS, kv_heads=2)
    want, want_lse = weft.attention(q, k, v, WINDOW, return_lse=True)

    def work(ring):
        plan = ring.plan(WINDOW, tokens=TOKENS, heads=4, kv_heads=2, dim=16, batch=2)
        out, lse = plan(plan.own(q), plan.own(k), plan.own(v), return_lse=True)
        np.testing.assert_array_equal(out, plan.own(want))
        np.testing.assert_array_equal(lse, plan.own(want_lse, 2))
        share = plan.share()
        assert share["tokens"] == out.shape[1] == sum(map(len, plan.owned(ring.rank)))
        return ring.rank, plan.gather(out), plan.gather(lse, 2), share["received_bytes"], sorted(t for run in plan.owned(ring.rank) for t in run)

    found = on_ranks(kind(RANKS), work, layout=layout)
    for rank, out, lse, _, _ in found:
        if rank == 0:
            np.testing.assert_array_equal(out, want)
            np.testing.assert_array_equal(lse, want_lse)
        else:
            assert out is None and lse is None
    assert sorted(t for *_, tokens in found for t in tokens) == list(range(TOKENS))
    assert any(received > 0 for *_, received, _ in found), "no key travelled"


@pytest.mark.parametrize("ranks", [2, 4])
def test_heads_change_places(tensors, ranks):
    q, k, v = tensors(n_q=TOKENS, kv_heads=2)
    d_out = np.full_like(q, 0.5)
    want, pullback = weft.vjp(q, k, v, WINDOW)
    of = pullback(d_out)

    def work(ring):
        plan = ring.plan(WINDOW, tokens=TOKENS, heads=4, kv_heads=2, dim=16, batch=2, gradient=True)
        own = [plan.own(x) for x in (q, k, v)]
        out, lse = plan(*own, return_lse=True)
        found = plan.backward(*own, out, lse, plan.own(d_out))
        np.testing.assert_array_equal(out, plan.own(want))
        for ours, theirs in zip(found, (of.q, of.k, of.v)):
            np.testing.assert_array_equal(ours, plan.own(theirs))
        return plan.carrier

    assert {carrier.split(",")[0] for carrier in on_ranks(weft.ring.threads(ranks), work, by="heads")} == {"heads"}


@pytest.mark.parametrize("by", ["keys", "heads"])
def test_gradients_of_inputs_are_those_of_all_rows(tensors, by):
    q, k, v = tensors(n_q=TOKENS, kv_heads=2)
    biased = "pattern biased { input bias: f32[heads, keys]; keep causal; score s + bias[h, k]; }"
    inputs = {"bias": np.linspace(-1, 1, 4 * TOKENS, dtype=np.float32).reshape(4, TOKENS)}
    d_out = np.full_like(q, 0.5)
    _, pullback = weft.vjp(q, k, v, biased, inputs=inputs)
    want = pullback(d_out).inputs["bias"]

    def work(ring):
        plan = ring.plan(biased, tokens=TOKENS, heads=4, kv_heads=2, dim=16, batch=2, inputs=inputs, gradient=True)
        own = [plan.own(x) for x in (q, k, v)]
        out, lse = plan(*own, return_lse=True)
        with pytest.raises(weft.ArgumentError, match="no input 'gate'"):
            plan.backward(*own, out, lse, plan.own(d_out), inputs=["gate"])
        assert plan.backward(*own, out, lse, plan.own(d_out)).inputs == {}
        return plan.backward(*own, out, lse, plan.own(d_out), inputs=["bias"]).inputs["bias"]

    found = on_ranks(weft.ring.threads(2), work, by=by)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], want, atol=1e-5 * np.abs(want).max())


def test_gradients_have_the_bits_of_one_device(tensors):
    q, k, v = tensors(n_q=TOKENS, kv_heads=2)
    d_out, d_lse = np.ones_like(q), np.full((2, 4, TOKENS), 0.5, np.float32)
    out, pullback = weft.vjp(q, k, v, WINDOW)
    want = pullback(d_out, d_lse)

    def work(ring):
        plan = ring.plan(WINDOW, tokens=TOKENS, heads=4, kv_heads=2, dim=16, batch=2, gradient=True)
        own = [plan.own(x) for x in (q, k, v)]
        o, lse = plan(*own, return_lse=True)
        found = plan.backward(*own, o, lse, plan.own(d_out), plan.own(d_lse, 2))
        for name in ("q", "k", "v"):
            np.testing.assert_array_equal(getattr(found, name), plan.own(getattr(want, name)), err_msg=name)
        return True

    assert on_ranks(weft.ring.threads(RANKS), work) == [True] * RANKS


@pytest.mark.parametrize("options", [{"by": "queries", "layout": "contiguous"}, {"memory": 4 * 128 * 2 * 32 * 4}])
def test_rings_that_cut_keys(rng, options):
    """Queries that travel, and rounds of keys: the values of one device, and the same bits on any number of ranks."""
    text = "pattern p { branch global(8) | window(9, 9); }"
    tokens, heads, dim = 600, 2, 16
    q, k, v = (rng.standard_normal((1, tokens, heads, dim), dtype=np.float32) for _ in range(3))

    def work(ring):
        plan = ring.plan(text, tokens=tokens, heads=heads, dim=dim)
        out = plan(plan.own(q), plan.own(k), plan.own(v))
        return plan.bits, plan.gather(out)

    found = [on_ranks(weft.ring.threads(ranks), work, **options)[0] for ranks in (2, 3)]
    assert all(bits.startswith("chunks of ") for bits, _ in found)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][1], weft.attention(q, k, v, text), rtol=1e-4, atol=1e-5)


def test_more_ranks_than_tokens(tensors):
    q, k, v = tensors(batch=1, n_q=2)
    want = weft.attention(q, k, v, "causal")

    def work(ring):
        plan = ring.plan("causal", tokens=2, heads=4, dim=16)
        return plan.gather(plan(plan.own(q), plan.own(k), plan.own(v)))

    np.testing.assert_array_equal(next(x for x in on_ranks(weft.ring.threads(4), work) if x is not None), want)


def test_dropout_needs_a_seed_and_has_one_devices(tensors):
    q, k, v = tensors(batch=1, n_q=40)
    want = weft.attention(q, k, v, "causal", dropout=0.5, seed=7)

    def work(ring):
        plan = ring.plan("causal", tokens=40, heads=4, dim=16, dropout=0.5)
        own = [plan.own(x) for x in (q, k, v)]
        with pytest.raises(weft.ArgumentError, match="seed must be given"):
            plan(*own)
        np.testing.assert_array_equal(plan(*own, seed=7), plan.own(want))

    on_ranks(weft.ring.threads(2), work)


def test_inputs_are_whole(tensors, rng):
    q, k, v = tensors(batch=1, n_q=40)
    doc = (np.arange(40, dtype=np.int32) // 15)[None]
    text = "pattern p { input doc: i32[batch, tokens]; keep causal & document(doc); }"
    want = weft.attention(q, k, v, text, inputs={"doc": doc})

    def work(ring):
        plan = ring.plan(text, tokens=40, heads=4, dim=16, inputs={"doc": doc})
        np.testing.assert_array_equal(plan(plan.own(q), plan.own(k), plan.own(v)), plan.own(want))

    on_ranks(weft.ring.threads(2), work)


def test_columns_may_be_strided(tensors):
    q, k, v = tensors(batch=1, n_q=40, dim=32)
    q, k, v = q[..., ::2], k[..., ::2], v[..., ::2]
    want = weft.attention(q, k, v, "causal")

    def work(ring):
        plan = ring.plan("causal", tokens=40, heads=4, dim=16)
        np.testing.assert_array_equal(plan(plan.own(q), plan.own(k), plan.own(v)), plan.own(want))

    on_ranks(weft.ring.threads(2), work)


def test_ranks_that_disagree_are_named():
    def work(ring):
        with pytest.raises(weft.ArgumentError, match="rank 1"):
            ring.plan("causal", tokens=40 + ring.rank, heads=4, dim=16)

    on_ranks(weft.ring.threads(2), work)


def test_what_a_messenger_raises_ends_the_ring():
    first, second = mailboxes(2)

    def refuse(peer, tag, data):
        raise OSError("the cable is cut")

    second.send = refuse

    def join(messenger):
        with pytest.raises(weft.UnavailableError) as raised:
            weft.ring.Ring(messenger, timeout=2.0)
        return str(raised.value)

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(join, [first, second]))
    assert "the cable is cut" in texts[1]
    assert first.ended == second.ended == 1
    assert not first.requests and not second.requests


def test_messengers_are_ended_with_their_ring():
    pair = mailboxes(2)
    on_ranks(pair, lambda ring: ring.barrier())
    assert [one.ended for one in pair] == [1, 1]


@pytest.mark.parametrize("broken, match", [({"layout": "round"}, "layout is 'round'"), ({"by": "cart"}, "by is 'cart'"), ({"timeout": -1.0}, "timeout")])
def test_bad_options(broken, match):
    with pytest.raises(weft.ArgumentError, match=match):
        weft.ring.Ring(weft.ring.threads(1)[0], **broken)


def test_nccl_is_looked_for_where_it_is_named(monkeypatch):
    monkeypatch.setenv("WEFT_NCCL", "/nowhere/libnccl.so.2")
    monkeypatch.setenv("WEFT_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    with pytest.raises(weft.UnavailableError, match="/nowhere/"):
        weft.ring.Ring(weft.ring.threads(1)[0], nccl=0)


def test_a_transport_serves_one_ring():
    (only,) = weft.ring.threads(1)
    weft.ring.Ring(only)
    with pytest.raises(weft.ArgumentError, match="belongs to a ring already"):
        weft.ring.Ring(only)


def test_bad_arrays(tensors):
    q, k, v = tensors(batch=1, n_q=40)
    plan = weft.ring.Ring(weft.ring.threads(1)[0]).plan("causal", tokens=40, heads=4, dim=16)
    with pytest.raises(weft.ArgumentError, match="gradient=True"):
        plan.backward(q, k, v, q, q, q)
    with pytest.raises(weft.ArgumentError):
        plan(q[:, :30], k, v)


@pytest.mark.parametrize("combine", ["sum", "mean"])
def test_softmaxes_of_branches(combine):
    text = f"pattern p {{ branch window(20, 0); branch dilated(segment: 50, rate: 3); combine {combine}; }}"
    rng = np.random.default_rng(4)
    q, k, v, d_out = (rng.standard_normal((1, TOKENS, 2, 16), dtype=np.float32) for _ in range(4))
    out, pullback = weft.vjp(q, k, v, text)
    want = pullback(d_out)

    def work(ring):
        plan = ring.plan(text, tokens=TOKENS, heads=2, dim=16, gradient=True)
        own = [plan.own(x) for x in (q, k, v)]
        found, lse = plan.forward(*own, 0, 1, True)
        assert lse.shape == (2, 1, 2, own[0].shape[1])
        gradients = plan.backward(*own, found, lse, plan.own(d_out))
        np.testing.assert_array_equal(found, plan.own(out))
        for one, other in zip(gradients, (want.q, want.k, want.v)):
            np.testing.assert_array_equal(one, plan.own(other))
        with pytest.raises(weft.ArgumentError, match="no LSE of the rows"):
            plan(*own, return_lse=True)

    on_ranks(weft.ring.threads(RANKS), work, layout="zigzag")
