"""What the comparison says: one line for each workload as it is done, and the table of docs/performance.md."""

import statistics

COLUMNS = ("workload", "tokens", "d", "Weft, 1 thread", "bar", "", "all threads", "× 1 thread", "best of PyTorch", "Weft is")


def median(values):
    return statistics.median(values) if values else None


def quartiles(values):
    values = sorted(values)
    at = lambda part: values[round(part * (len(values) - 1))]
    return at(0.25), at(0.75)


def cells(row, alone, together, peers):
    """`alone`, `together`: contenders with .times and .shares; peers: contenders, all threads."""
    workload = row.workload
    share = median(alone.shares)
    low, high = quartiles(alone.shares)
    best = min((one for one in peers if not one.problem), key=lambda one: median(one.times), default=None)
    reasons = {one.problem.split(". ")[0]: one.name for one in reversed(peers) if one.problem}
    problems = "; ".join(f"{name}: {reason}" for reason, name in reasons.items())
    return [
        workload.name, str(workload.tokens), str(workload.dim),
        f"{share:.2f} ({low:.2f}–{high:.2f}), {median(alone.times):.4g} ms", f"{row.bar:.2f}",
        "reached" if share >= row.bar else "below",
        f"{median(together.shares):.2f}, {median(together.times):.4g} ms",
        f"{median(alone.times) / median(together.times):.2f}",
        f"{best.name}: {median(best.times):.4g} ms" if best else problems or "–",
        f"{median(best.times) / median(together.times):.1f} × as fast" if best else "–",
    ]


def line(values):
    return "{:<22} {:>6} {:>4}  {:<32} {:>4} {:<7} {:<20} {:>10}  {:<42} {}".format(*values).rstrip()


def table(rows):
    out = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
