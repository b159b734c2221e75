"""What the comparison prints: one row for each contender of a workload."""

import statistics

COLUMNS = "{:<24} {:>7} {:>4} {:>5} {:<26} {:>9} {:>17} {:>8} {:>7} {:>10} {:>9} {:>9}"


def header():
    return COLUMNS.format("workload", "tokens", "dim", "dtype", "by", "ms", "quartiles", "TFLOP/s", "share", "compile ms",
                          "plan ms", "error")


def quartiles(times):
    times = sorted(times)
    at = lambda part: times[round(part * (len(times) - 1))]
    return at(0.25), at(0.75)


def row(workload, contender, dense_rate):
    """`dense_rate`: FLOP/s of cuDNN's dense attention in the same rounds; None: not known."""
    names = (workload.name, workload.tokens, workload.dim, workload.dtype, contender.name)
    if contender.problem:
        return COLUMNS.format(*names, "–", "", "", "", "", "", "") .rstrip() + "  " + contender.problem
    low, high = quartiles(contender.times)
    rate = workload.flops(contender) / (statistics.median(contender.times) / 1e3)
    number = lambda value, form: "–" if value is None else format(value, form)
    return COLUMNS.format(*names, f"{statistics.median(contender.times):.3f}", f"{low:.3f}..{high:.3f}",
                          f"{rate / 1e12:.1f}", number(dense_rate and rate / dense_rate, ".2f"),
                          number(contender.compile_ms, ".0f"), number(contender.plan_ms, ".1f"),
                          number(contender.error, ".1e"))
