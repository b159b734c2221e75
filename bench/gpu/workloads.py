"""What is compared: patterns with their sizes, and the pairs that they keep."""

from workload import BIGBIRD_BLOCK, DOCUMENTS, LONGNET3, LONGNET5, Workload

WIDTH = 2048  # heads × dim, as in models
BUDGET = 32768  # tokens of a launch, where batches make it up


def dense():
    for dim in (64, 128):
        for causal in (False, True):
            for tokens in (2048, 4096, 8192, 16384, 32768):
                yield Workload("dense causal" if causal else "dense", "dense", tokens, WIDTH // dim, dim,
                               batch=BUDGET // tokens, causal=causal)


def sparse():
    for dim in (64, 128):
        heads = WIDTH // dim
        for width in (1024, 4096):
            for tokens in (16384, 65536):
                yield Workload(f"window {width}", "window", tokens, heads, dim, width=width)
        yield Workload("documents", "documents", sum(DOCUMENTS), heads, dim, documents=DOCUMENTS)
        for tokens in (8192, 32768):
            yield Workload("bigbird", "bigbird", tokens, heads, dim, block=BIGBIRD_BLOCK)


def longnet():
    for tokens in (8192, 32768, 131072):
        for causal in (False, True):
            yield Workload("longnet3 causal" if causal else "longnet3", "longnet", tokens, 8, 64, causal=causal,
                           segments=LONGNET3[0], rates=LONGNET3[1])
        yield Workload("longnet5 causal", "longnet", tokens, 12, 64, causal=True, segments=LONGNET5[0],
                       rates=LONGNET5[1])


def everything():
    return [*dense(), *sparse(), *longnet()]
