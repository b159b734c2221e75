"""What is compared: a pattern with its sizes, and the pairs that it keeps."""

import dataclasses

import pairs

PATTERNS = """
pattern dense { }
pattern dense_causal { keep causal; }
pattern window(width: int) { keep window(width - 1, 0); }
pattern longnet(segments: [int], rates: [int]) { branches dilated(segments: segments, rates: rates); }
pattern longnet_causal(segments: [int], rates: [int]) {
  branches dilated(segments: segments, rates: rates);
  keep causal;
}
pattern groups(segments: [int], rates: [int]) {
  branches dilated(segments: segments, rates: rates, phase: i % rate, heads: groups);
  combine mean;
}
pattern neighborhood(size: int, dilation: int) {
  grid 64, 64;
  branch neighborhood(size: [size, size], dilation: [dilation, dilation]);
}
pattern documents { input number: i32[batch, tokens]; keep causal & document(number); }
pattern bigbird(block: int) { branch blocks(block, global(1) | window(1, 1) | random(3, seed: 7)); }
"""

LONGNET3 = ((2048, 4096, 8192), (1, 2, 4))
LONGNET5 = ((2048, 4096, 8192, 16384, 32768), (1, 2, 4, 6, 12))
# Of a text collection: few are long, most are short.
DOCUMENTS = (3511, 268, 1745, 932, 4096, 2210, 617, 3005)
BIGBIRD_BLOCK = 64



@dataclasses.dataclass
class Workload:
    name: str
    kind: str  # which of peers.py compute it: a pattern above
    tokens: int
    heads: int
    dim: int
    batch: int = 1
    causal: bool = False
    dtype: str = "bf16"
    width: int = 0
    segments: tuple = ()
    rates: tuple = ()
    documents: tuple = ()
    block: int = 0
    dilation: int = 1  # of neighborhoods on the grid
    queries: int = 0  # fewer than tokens: the last ones; 0: all
    kv_heads: int = 0  # 0: as many as heads
    kept_blocks: list = None  # of each head, once they are drawn
    backward: bool = False  # dQ, dK and dV in place of O

    @property
    def pattern(self):
        return self.kind + ("_causal" if self.causal and self.kind in ("dense", "longnet") else "")

    @property
    def params(self):
        lists = lambda values: "[" + ", ".join(map(str, values)) + "]"
        return {
            "window": {"width": self.width},
            "longnet": {"segments": lists(self.segments), "rates": lists(self.rates)},
            "groups": {"segments": lists(self.segments), "rates": lists(self.rates)},
            "neighborhood": {"size": self.width, "dilation": self.dilation},
            "bigbird": {"block": self.block},
        }.get(self.kind, {})

    def pairs(self):
        """Of one batch entry, over all heads."""
        if self.queries:
            return self.heads * self.queries * self.tokens
        if self.kind == "dense":
            return pairs.dense(self.tokens, self.heads, self.causal)
        if self.kind == "groups":
            return pairs.dilated_groups(self.tokens, self.heads, self.segments, self.rates)
        if self.kind == "neighborhood":
            return self.heads * self.tokens * self.width**2
        if self.kind == "window":
            return pairs.window(self.tokens, self.heads, self.width)
        if self.kind == "longnet":
            return pairs.dilated(self.tokens, self.heads, self.segments, self.rates, self.causal)
        if self.kind == "documents":
            return pairs.documents(self.documents, self.heads)
        return pairs.blocks(self.tokens, self.block, self.kept_blocks)

    def flops(self, contender=None):
        """Useful ones, whatever a contender really executes; the dense yardstick does work of its own."""
        if contender is not None and contender.flops is not None:
            return contender.flops
        return pairs.flops(self.pairs(), self.batch, self.dim, self.dim) * (5 if self.backward else 2) // 2


def small():
    """The same kinds at sizes that a CPU computes at once: for checks, not for times."""
    sizes = dict(heads=3, dim=16, dtype="f32")
    for causal in (False, True):
        yield Workload("dense", "dense", 200, batch=2, causal=causal, **sizes)
        yield Workload("longnet", "longnet", 384, causal=causal, segments=(64, 128, 512), rates=(1, 2, 5), **sizes)
    yield Workload("longnet", "longnet", 512, batch=2, segments=(128, 256), rates=(3, 4), causal=True, **sizes)
    yield Workload("window", "window", 300, width=37, **sizes)
    yield Workload("documents", "documents", 150, documents=(70, 1, 50, 29), causal=False, **sizes)
    yield Workload("bigbird", "bigbird", 512, block=32, **sizes)
