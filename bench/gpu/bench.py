#!/usr/bin/env python3
"""Weft's GPU kernels beside what PyTorch has for the same patterns, in one run: contenders take turns, so that clocks
and neighbours disturb all of them alike. Needs PyTorch, a GPU, NVRTC and build-gpu-only/libweft.so, nothing else.

    ./dev build --gpu-only
    python3 bench/gpu/bench.py [--grad] [--only longnet] [--dtype f16] [--quick] [--alone] [-o FILE]

--grad measures the backward pass of an O that was computed before. --host-check instead compares what all of them
compute, at small sizes on the CPU, with build/libweft.so.
"""

import argparse
import datetime
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pytorch"))

import report
import workloads
from contenders import Weft, contenders_of, first_line, make_sets, measure_errors, peer_contender
from library import Error, Library
from workload import Workload, small

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS, FEWEST_ROUNDS = 9, 3
SECONDS = 20  # of rounds for one workload
SAMPLE_MS = 5  # a sample is as many launches as take so long
YARDSTICK = "dense by cuDNN"
YARDSTICK_TOKENS = 8192


def skip(reason):
    print(f"bench/gpu: skipped: {reason}")
    sys.exit(0)


# ---------------------------------------------------------------- the yardstick


def yardstick(torch, peers, workload, device):
    """Dense attention by cuDNN at the same dim and type: what shares are shares of."""
    dense = Workload(YARDSTICK, "dense", YARDSTICK_TOKENS, workloads.WIDTH // workload.dim, workload.dim,
                     batch=workloads.BUDGET // YARDSTICK_TOKENS, dtype=workload.dtype, backward=workload.backward)
    made = peer_contender(peers, YARDSTICK, lambda q, k, v, _: peers.sdpa("cuDNN", q, k, v, False),
                          make_sets(torch, dense, device)[:1], {}, workload.backward)
    made.flops = dense.flops()
    return made


# ---------------------------------------------------------------- comparison


def sample(torch, contender, launches):
    """Milliseconds of a launch, on the GPU's clock."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for i in range(launches):
        contender.runs[i % len(contender.runs)]()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / launches


def take_turns(torch, contenders):
    ready = [one for one in contenders if not one.problem]
    counts = [max(1, round(SAMPLE_MS / max(sample(torch, one, 2), 1e-3))) for one in ready]  # warms up, too
    begin = time.perf_counter()
    while len(ready) > 0 and len(ready[0].times) < ROUNDS:
        if time.perf_counter() - begin > SECONDS and len(ready[0].times) >= FEWEST_ROUNDS:
            break
        for one, count in zip(ready, counts):
            one.times.append(sample(torch, one, count))


def compare(torch, peers, weft, workload, targets, device, say, alone=False):
    contenders = contenders_of(torch, peers, weft, workload, targets, device, alone)
    measure_errors(torch, workload, contenders)
    dense = yardstick(torch, peers, workload, device)
    take_turns(torch, [*contenders, dense])
    rate = None if dense.problem else dense.flops / (statistics.median(dense.times) / 1e3)
    for one in [*contenders, dense]:
        say(report.row(workload, one, rate))
    torch.cuda.empty_cache()


def host_check(torch, peers, library, backward):
    """Does everything compute the same? On the CPU, where Weft's kernels are other ones: it is this script that is
    checked, the peers it builds and the pairs it counts. Not every peer has a backward pass there."""
    device = torch.device("cpu")
    weft, wrong = Weft(torch, library, device), 0
    for workload in small():
        workload.backward = backward
        contenders = contenders_of(torch, peers, weft, workload, {"Weft": "cpu"}, device)
        measure_errors(torch, workload, contenders)
        for one in contenders:
            may_be_missing = backward and "does not support backward" in one.problem
            wrong += 1 if one.problem and not may_be_missing else 0
            print(f"{workload.name:<12} {workload.tokens:>5} {workload.pairs():>9} pairs  {one.name:<24}",
                  one.problem or ("–" if one.error is None else f"{one.error:.1e}"))
    return 1 if wrong else 0


# ---------------------------------------------------------------- command


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libweft.so; default: that of ./dev build --gpu-only")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--dim", type=int, help="workloads of this dim")
    parser.add_argument("--dtype", default="bf16", choices=("f32", "f16", "bf16"))
    parser.add_argument("--grad", action="store_true", help="the backward pass, beside PyTorch's autograd")
    parser.add_argument("--quick", action="store_true", help="only the shortest of each workload")
    parser.add_argument("--alone", action="store_true",
                        help="without what PyTorch has for the same pattern, whose masks take minutes: Weft and the yardstick")
    parser.add_argument("--host-check", action="store_true", help="compare results on the CPU, measure nothing")
    parser.add_argument("-o", "--output", help="default: bench/results/DATE-DEVICE.txt; -: none")
    return parser.parse_args()


def open_library(path):
    try:
        return Library(path)
    except OSError as error:
        skip(f"{first_line(error)}; ./dev build --gpu-only makes build-gpu-only/libweft.so")


def chosen(given):
    out = [w for w in workloads.everything() if given.only in w.name and given.dim in (None, w.dim)]
    for workload in out:
        workload.dtype, workload.backward = given.dtype, given.grad
    if given.quick:
        shortest = {}
        for workload in out:
            shortest.setdefault((workload.name, workload.dim), workload)
        out = list(shortest.values())
    return out


def describe(torch, library, device, backward):
    name = torch.cuda.get_device_name(device)
    driver = pathlib.Path("/proc/driver/nvidia/version")
    return [
        f"{datetime.date.today()}, {name}, sm_{''.join(map(str, torch.cuda.get_device_capability(device)))}",
        f"Weft {library.version}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
        f"{torch.backends.cudnn.version()}",
        f"driver: {driver.read_text().splitlines()[0] if driver.exists() else 'unknown'}",
        f"TFLOP/s: useful ones, 2 ({'3 d + 2 d_v' if backward else 'd + d_v'}) for each pair that the pattern keeps, with its "
        "multiplicity.",
        f"share: of cuDNN's dense attention ({YARDSTICK_TOKENS} tokens), measured in the same rounds.",
        *(["Backward passes: dQ, dK and dV of an O and LSE that were computed before; the others by autograd. error: of all three."]
          if backward else []),
        "compile ms: Weft without a store, the others' first call; plan ms: Weft's planning and text, the others' masks.",
        "",
    ]


def targets_of(weft):
    """The kernels of this GPU, and those that it would have if it had no tensor cores: evidence for Pascal."""
    kernel, _ = weft.compile(Workload("", "dense", 1, 1, 64), "cuda")
    return {"Weft": "cuda", "Weft, no tensor cores": kernel.target.rstrip("a") + ":simt"}


def open_output(given, device_name):
    if given.output == "-":
        return open(os.devnull, "w")
    name = f"{datetime.date.today()}-{device_name.replace(' ', '-')}-{given.dtype}{'-backward' if given.grad else ''}.txt"
    path = pathlib.Path(given.output or ROOT / "bench" / "results" / name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "w")


def main():
    given = options()
    try:
        import torch

        import peers
    except ImportError as error:
        skip(f"PyTorch is not installed ({first_line(error)}): pip install torch")
    if given.host_check:
        return host_check(torch, peers, open_library(given.library or str(ROOT / "build" / "libweft.so")), given.grad)
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU here")
    library = open_library(given.library or str(ROOT / "build-gpu-only" / "libweft.so"))
    device = torch.device("cuda", 0)
    weft = Weft(torch, library, device)
    targets = targets_of(weft)
    with open_output(given, torch.cuda.get_device_name(device)) as file:

        def say(line):
            print(line, flush=True)
            print(line, file=file, flush=True)

        for line in [*describe(torch, library, device, given.grad), report.header()]:
            say(line)
        for workload in chosen(given):
            try:
                compare(torch, peers, weft, workload, targets, device, say, given.alone)
            except (Error, torch.OutOfMemoryError) as error:
                say(f"{workload.name} at {workload.tokens} tokens: {first_line(error)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
