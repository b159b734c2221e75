"""The charts of docs/performance.md, PNG and SVG: time over length, share of peak by pattern, memory over length, time
over density. Each point is measured in the same rounds as its neighbours."""

import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import bench
from contenders import make_inputs, make_sets, peer_contender
from library import Error
from workload import LONGNET3, Workload

LENGTHS = [1 << n for n in range(13, 21)]
PEER_LENGTHS = {"gather + flash + merge": 1 << 17, "FlexAttention": 1 << 13}  # beyond: minutes, or more memory than there is
DENSE_LENGTHS = 1 << 15
WIDTHS = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]


def causal_longnet(tokens):
    segments, rates = LONGNET3
    return Workload("longnet3 causal", "longnet", tokens, 8, 64, dtype="f32", causal=True, segments=segments, rates=rates)


def measured(torch, meter, contender, workload):
    bench.take_turns(torch, meter, workload, [contender])
    return statistics.median(contender.times)


def weft(torch, library, meter, threads, workload, sets, inputs):
    made = bench.weft_contender(torch, library, "Weft", threads, workload, sets, inputs)
    if made.problem:
        raise Error(made.problem)
    return measured(torch, meter, made, workload)


def theirs(torch, peers, meter, threads, workload, sets, inputs, wanted):
    """{name: ms} of the peers that take part at this length."""
    out = {}
    for name, make in peers.peers_of(workload, torch.device("cpu"), compiled=True):
        if not wanted(name):
            continue
        made = peer_contender(peers, name, make, sets, inputs)
        made.threads = threads
        if not made.problem:
            out[name] = measured(torch, meter, made, workload)
    return out


def save(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    print(f"docs/charts/{name}", flush=True)


def chart(folder, name, lines, xlabel, ylabel, title):
    """`lines`: {label: [(x, y)]}."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for label, points in lines.items():
        axes.plot(*zip(*points), marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    save(figure, folder, name)


def over_length(torch, peers, library, meter, threads, folder):
    times = {}
    put = lambda to, name, x, y: to.setdefault(name, []).append((x, y))
    device = torch.device("cpu")
    for tokens in LENGTHS:
        workload = causal_longnet(tokens)
        sets, inputs = make_sets(torch, workload, device), {}
        put(times, "Weft, LongNet", tokens, weft(torch, library, meter, threads, workload, sets, inputs))
        wanted = lambda name: tokens <= PEER_LENGTHS.get(name, 0)
        for name, ms in theirs(torch, peers, meter, threads, workload, sets, inputs, wanted).items():
            put(times, f"PyTorch, LongNet: {name}", tokens, ms)
        if tokens <= DENSE_LENGTHS:
            dense = Workload("dense causal", "dense", tokens, 8, 64, dtype="f32", causal=True)
            put(times, "Weft, dense causal", tokens, weft(torch, library, meter, threads, dense, sets, inputs))
            for name, ms in theirs(torch, peers, meter, threads, dense, sets, inputs, lambda n: "SDPA" in n).items():
                put(times, f"PyTorch, dense causal: {name}", tokens, ms)
    chart(folder, "time-over-length", times, "tokens", "ms", f"Forward, f32, 8 heads of 64, {threads} threads")


def memory_over_length(torch, library, threads, folder):
    kernel, _ = bench.Weft(torch, library, torch.device("cpu")).compile(causal_longnet(LENGTHS[0]), "cpu")
    lines = {
        "a mask tensor of bytes, one head": lambda n: n**2,
        "tensors q, k, v and output": lambda n: 4 * 4 * 8 * 64 * n,
        f"Weft, LongNet, {threads} threads": lambda n: kernel.workspace_bytes((1, n, n, 8, 8), threads),
    }
    memory = {name: [(n, of(n) / 2**20) for n in LENGTHS] for name, of in lines.items()}
    chart(folder, "memory-over-length", memory, "tokens", "MiB", "Memory of a launch, f32, 8 heads of 64")


def over_density(torch, peers, library, meter, threads, folder):
    tokens, times = WIDTHS[-1], {}
    device = torch.device("cpu")
    for width in WIDTHS:
        workload = Workload("window", "window", tokens, 8, 64, dtype="f32", width=width)
        sets, inputs = make_sets(torch, workload, device), make_inputs(torch, workload, device)
        density = workload.pairs() / (8 * tokens**2)
        times.setdefault("Weft", []).append((density, weft(torch, library, meter, threads, workload, sets, inputs)))
    whole = times["Weft"][-1]
    times["in proportion to the pairs kept"] = [(x, whole[1] * x / whole[0]) for x, _ in times["Weft"]]
    chart(folder, "time-over-density", times, "share of pairs that a causal window keeps", "ms",
          f"Windows at {tokens} tokens, f32, 8 heads of 64, {threads} threads")


def shares(rows, folder):
    figure, axes = plt.subplots(figsize=(7, 6))
    names = [f"{cells[0]}, {cells[1]}, d {cells[2]}" for cells in rows]
    at = range(len(rows))
    axes.barh(at, [float(cells[3].split()[0]) for cells in rows], color="tab:blue", label="measured, one thread")
    axes.scatter([float(cells[4]) for cells in rows], at, color="black", marker="|", s=120, label="bar", zorder=3)
    axes.set_yticks(at, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("useful FLOPs over the FMA loop's peak (decode: bytes over a copy's)")
    axes.grid(True, axis="x", alpha=0.3)
    axes.legend(loc="lower right")
    save(figure, folder, "share-by-pattern")


def draw(torch, peers, library, meter, threads, folder, rows):
    shares(rows, folder)
    memory_over_length(torch, library, threads, folder)
    over_density(torch, peers, library, meter, threads, folder)
    over_length(torch, peers, library, meter, threads, folder)
