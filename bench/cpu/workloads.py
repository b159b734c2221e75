"""What is compared on CPUs, and what Weft should reach: shares of the f32 FMA loop's peak in useful FLOPs, one thread;
of decoding, of the bandwidth of a copy."""

import dataclasses
import json
import pathlib
import subprocess

from workload import BIGBIRD_BLOCK, DOCUMENTS, LONGNET3, LONGNET5, Workload

SIDE = 64  # of the grid


@dataclasses.dataclass
class Row:
    workload: Workload
    bar: float
    peers: bool = True  # where they would take minutes or more memory than there is, Weft is measured alone


def longnet(name, tokens, heads, branches, causal, bar, peers=True, **more):
    segments, rates = branches
    return Row(Workload(name, "longnet", tokens, heads, 64, dtype="f32", causal=causal, segments=segments, rates=rates,
                        **more), bar, peers)


def multiplies_pairs():
    """Does bf16 pay in pairs on this processor, as Weft measured?"""
    weft = pathlib.Path(__file__).resolve().parents[2] / "build" / "weft"
    said = subprocess.run([weft, "doctor", "--json"], check=True, capture_output=True, text=True).stdout
    cpu = next(item for item in json.loads(said)["items"] if item["name"] == "cpu")
    return cpu["bf16"] is not None and cpu["bf16"]["products"] == "pairs"


def everything():
    f32 = dict(dtype="f32")
    for causal, bar in ((False, 0.85), (True, 0.80)):
        name = "dense causal" if causal else "dense"
        for tokens in (1024, 4096, 16384):
            yield Row(Workload(name, "dense", tokens, 8, 64, causal=causal, **f32), bar)
    for causal, bar in ((False, 0.88), (True, 0.85)):
        yield Row(Workload("dense causal" if causal else "dense", "dense", 4096, 8, 128, causal=causal, **f32), bar)
    for dtype, bar in (("f16", 0.78), ("bf16", 1.25 if multiplies_pairs() else 0.78)):
        yield Row(Workload(f"dense {dtype}", "dense", 4096, 8, 64, dtype=dtype), bar)
    for tokens in (8192, 65536):
        yield longnet("longnet3", tokens, 8, LONGNET3, False, 0.95, tokens < 10000)
        yield longnet("longnet3 causal", tokens, 8, LONGNET3, True, 0.90, tokens < 10000)
    yield longnet("longnet5 causal", 32768, 12, LONGNET5, True, 0.85, False)
    segments, rates = LONGNET3
    yield Row(Workload("groups", "groups", 8192, 8, 64, segments=segments, rates=rates, **f32), 0.78)
    yield longnet("layer2k", 2048, 12, ((1024, 2048), (1, 2)), True, 0.66, batch=4)
    for width, bar in ((256, 0.60), (4096, 0.80)):
        yield Row(Workload(f"window {width}", "window", 16384, 8, 64, width=width, **f32), bar, width < 1000)
    yield Row(Workload("bigbird", "bigbird", 8192, 8, 64, block=BIGBIRD_BLOCK, **f32), 0.75)
    yield Row(Workload("documents", "documents", sum(DOCUMENTS), 8, 64, documents=DOCUMENTS, causal=True, **f32), 0.78)
    for dilation in (1, 2):
        yield Row(Workload(f"natten2d, dilation {dilation}", "neighborhood", SIDE**2, 8, 64, width=13, dilation=dilation,
                           **f32), 0.45)
    for queries in (1, 8):
        yield Row(Workload(f"decode, {queries} row{'s' if queries > 1 else ''}", "dense", 32768, 32, 128, kv_heads=8,
                           queries=queries, **f32), 0.80)


def backward():
    """Useful FLOPs of a gradient: five products of what the forward has two."""
    bars = {"dense": 0.88, "dense causal": 0.88, "longnet3": 1.03, "longnet3 causal": 0.98, "longnet5 causal": 0.88,
            "window 256": 0.66, "window 4096": 0.84, "bigbird": 0.70, "documents": 0.74, "natten2d, dilation 1": 0.42}
    for row in everything():
        of = row.workload
        short = of.kind == "dense" and of.tokens != 4096
        if of.name not in bars or short:
            continue
        bar = bars[of.name] if of.dim == 64 else 0.85
        yield Row(dataclasses.replace(of, backward=True), bar, row.peers)


def chosen(gradients):
    return backward() if gradients else everything()
