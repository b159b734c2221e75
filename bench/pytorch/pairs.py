"""How many (query, key) pairs a pattern keeps, by closed forms: useful FLOPs are 2 (d + d_v) for each.

Plain Python, apart from the library on purpose: `weft explain` counts the same pairs in its own way, and a test
compares the two. All functions give the sum over heads, for one batch entry.
"""


def dense(n, heads, causal=False):
    return heads * (n * (n + 1) // 2 if causal else n * n)


def window(n, heads, width):
    """Each token sees itself and the width - 1 before it."""
    full = min(width, n)
    return heads * (full * (full + 1) // 2 + (n - full) * full)


def documents(lengths, heads):
    """Causal inside each document."""
    return sum(dense(length, heads, causal=True) for length in lengths)


def dilated(n, heads, segments, rates, causal):
    """LongNet's branches, a pair counted once for each that keeps it; the phase of head h is h % rate."""
    total = 0
    for segment, rate in zip(segments, rates):
        for begin in range(0, n, segment):
            tokens = min(segment, n - begin)
            for phase in (h % rate for h in range(heads)):
                kept = (tokens - phase + rate - 1) // rate if tokens > phase else 0
                total += kept * (kept + 1) // 2 if causal else kept * kept
    return total


def dilated_groups(n, heads, segments, rates):
    """DilatedAttention: consecutive groups of heads run one branch each, the first ones a head more where it does not
    come out even."""
    total, branches = 0, len(segments)
    for number, (segment, rate) in enumerate(zip(segments, rates)):
        group = heads // branches + (number < heads % branches)
        for begin in range(0, n, segment):
            tokens = min(segment, n - begin)
            kept = max(0, -(-(tokens - number % rate) // rate))
            total += group * kept * kept
    return total


def blocks(n, block, kept):
    """`kept` has a set of (row, column) numbers of blocks for each head."""
    tokens = lambda number: min(block, n - number * block)
    return sum(tokens(row) * tokens(column) for of_head in kept for row, column in of_head)


def flops(pairs, batch, dim, dim_v):
    return 2 * (dim + dim_v) * pairs * batch
