#!/usr/bin/env python3
"""Weft's CPU kernels beside what PyTorch has for the same patterns, in one run: contenders take turns, and the f32 FMA
loop's peak is measured before and after each sample, because clocks and neighbours change from second to second.

    ./dev bench cpu [--grad] [--only longnet] [--quick] [--charts] [--write]

./dev bench cpu makes the virtual environment and the libraries that this needs. --write puts the table into
docs/performance.md; --charts also draws them, into docs/charts (minutes more).
"""

import argparse
import ctypes
import datetime
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pytorch"))

import report
import unlocked
import workloads
from contenders import Weft, first_line, make_inputs, make_sets, measure_errors, peer_contender
from library import Error, Library

ROUNDS, FEWEST_ROUNDS = 9, 3
SECONDS = 12  # of rounds for one workload
SAMPLE_MS = 20  # a sample is as many launches as take so long
COPY_BYTES = 256 << 20
BEGIN, END = "<!-- bench/cpu: {} -->\n", "<!-- bench/cpu: end -->\n"


class Meter:
    """What shares are shares of: FLOP/s of the FMA loop, bytes/s of a copy, both read and written ones."""

    def __init__(self, torch, path):
        self.peak = ctypes.CDLL(str(path)).weft_peak_flops
        self.peak.restype, self.peak.argtypes = ctypes.c_double, [ctypes.c_int]
        if self.peak(1) < 0:
            sys.exit(3)
        self.torch, self.memory = torch, None

    def copy(self, threads):
        if self.memory is None:
            self.memory = [self.torch.ones(COPY_BYTES // 4), self.torch.zeros(COPY_BYTES // 4)]
        self.torch.set_num_threads(threads)
        begin = time.perf_counter()
        self.memory[1].copy_(self.memory[0])
        return 2 * COPY_BYTES / (time.perf_counter() - begin)

    def __call__(self, workload, threads):
        return self.copy(threads) if workload.queries else self.peak(threads)


def amount(workload):
    """Of what is measured: useful FLOPs, or the bytes of K and V."""
    if workload.queries:
        return 2 * 4 * workload.batch * workload.kv_heads * workload.tokens * workload.dim
    return workload.flops()


def take_turns(torch, meter, workload, contenders):
    """Milliseconds and shares of each; a contender has its number of threads."""
    ready = [one for one in contenders if not one.problem]
    for one in ready:
        torch.set_num_threads(one.threads)
        one.count, one.shares = max(1, round(SAMPLE_MS / max(one.milliseconds(1), 1e-3))), []
    begin = time.perf_counter()
    while ready and len(ready[0].times) < ROUNDS:
        if time.perf_counter() - begin > SECONDS and len(ready[0].times) >= FEWEST_ROUNDS:
            break
        for one in ready:
            before = meter(workload, one.threads)
            torch.set_num_threads(one.threads)
            ms = one.milliseconds(one.count)
            around = (before + meter(workload, one.threads)) / 2
            one.times.append(ms)
            one.shares.append(amount(workload) / (ms / 1e3) / around)


def weft_contender(torch, library, name, threads, workload, sets, inputs):
    weft = Weft(torch, library, torch.device("cpu"), threads)
    made = weft.contender(name, workload, "cpu", sets, inputs)
    made.threads = threads
    return made


def compare(torch, peers, library, meter, unlocked_peers, threads, row):
    workload, device = row.workload, torch.device("cpu")
    sets, inputs = make_sets(torch, workload, device), make_inputs(torch, workload, device)
    if workload.kind == "bigbird":
        Weft(torch, library, device).draw_blocks(workload, "cpu", sets[0], inputs)
    ours = [weft_contender(torch, library, "Weft", count, workload, sets, inputs) for count in dict.fromkeys((1, threads))]
    for one in ours:
        if one.problem:
            raise Error(one.problem)
    torch.set_num_threads(threads)
    theirs = []
    if row.peers:
        for name, make in peers.peers_of(workload, device, compiled=True):
            theirs.append(peer_contender(peers, name, make, sets, inputs, workload.backward))
            theirs[-1].threads = threads
    compared = [] if workload.kind == "groups" else theirs  # that package computes something else
    measure_errors(torch, workload, [*ours, *compared])
    if row.peers and unlocked_peers:
        theirs += unlocked_peers.contenders(row, threads)
    take_turns(torch, meter, workload, [*ours, *theirs])
    return report.cells(row, ours[0], ours[-1], theirs)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def describe(torch, library, meter, threads, unlocked_peers):
    more = ", and with its MKL told that this is an Intel processor (bench/cpu/unlocked.py)" if unlocked_peers else ""
    return [
        f"{datetime.date.today()}, {cpu_name()}, {threads} threads, f32 FMA peak {meter.peak(1) / 1e9:.0f} GFLOP/s with one "
        f"and {meter.peak(threads) / 1e9:.0f} with all; a copy moves {meter.copy(threads) / 1e9:.0f} GB/s.",
        f"Weft {library.version}; PyTorch {torch.__version__} as installed, {torch.backends.cpu.get_cpu_capability()}{more}.",
    ]


def chosen(given):
    rows = [row for row in workloads.chosen(given.grad) if given.only in row.workload.name]
    if given.quick:
        shortest = {}
        for row in rows:
            shortest.setdefault(row.workload.name, row)
        rows = list(shortest.values())
    return rows


def write_table(name, lines, rows):
    path = ROOT / "docs" / "performance.md"
    text = path.read_text()
    begin = BEGIN.format(name)
    before, rest = text.split(begin)
    after = rest.split(END, 1)[1]
    path.write_text(before + begin + "\n" + "\n".join(lines) + "\n\n" + report.table(rows) + "\n" + END + after)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(ROOT / "build" / "libweft.so"))
    parser.add_argument("--peak", default=str(ROOT / "build" / "bench" / "libweft-peak.so"), help="of bench/peak.cpp")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--grad", action="store_true", help="the backward pass, beside PyTorch's autograd")
    parser.add_argument("--threads", type=int, help="default: all")
    parser.add_argument("--quick", action="store_true", help="only the shortest of each workload")
    parser.add_argument("--charts", action="store_true", help="draw docs/charts, too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    return parser.parse_args()


def main():
    given = options()
    import torch

    import peers

    torch._dynamo.config.cache_size_limit = 64  # each workload is another function to FlexAttention
    threads = given.threads or torch.get_num_threads()
    library, meter = Library(given.library), Meter(torch, given.peak)
    unlocked_peers = None
    if unlocked.wanted():
        try:
            unlocked_peers = unlocked.Process(given.library, given.grad)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"PyTorch's MKL as it is only: {first_line(error)}")
    lines, rows = describe(torch, library, meter, threads, unlocked_peers), []
    print("\n".join(lines), report.line(report.COLUMNS), sep="\n", flush=True)
    for row in chosen(given):
        try:
            rows.append(compare(torch, peers, library, meter, unlocked_peers, threads, row))
            print(report.line(rows[-1]), flush=True)
        except (Error, RuntimeError, MemoryError) as error:
            print(f"{row.workload.name} at {row.workload.tokens} tokens: {first_line(error)}", flush=True)
    below = [cells for cells in rows if cells[5] == "below"]
    print(f"{len(rows) - len(below)} of {len(rows)} bars reached" + "".join(
        f"\n  below: {cells[0]} at {cells[1]}, d {cells[2]}: {cells[3]}, bar {cells[4]}" for cells in below))
    if given.write:
        write_table("gradients" if given.grad else "table", lines, rows)
    if given.charts:
        import charts

        charts.draw(torch, peers, library, meter, threads, ROOT / "docs" / "charts", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
