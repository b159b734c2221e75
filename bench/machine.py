#!/usr/bin/env python3
"""What kernels execute, in instructions of a warp, on the machine that tests/machine has in place of a GPU.

    ./dev bench machine [--only causal] [--target sm_80] [--of dq]
    ./dev bench machine --where causal [--target sm_80] [--of dkdv] [--tokens 512]
    ./dev bench machine --clocks causal [--blocks 2] [--target sm_80] …
    ./dev bench machine --clocks causal --queries 1 --tokens 4096 [--dim 128] [--of merge]

Of each pattern in f16: instructions for each product that the pattern asks for (HMMA of 16 x 8 x 16, on sm_61 FFMA), and
what a warp executes for a block of keys that is full, for one that is masked, and for all else of a tile of rows. The
last three are fitted, by least squares, to what several lengths execute: `off` is the largest share by which a length
differs from them. Documents have 200 tokens. Time, stalls and memory are not known here. --of: the forward pass, or which
one of the backward pass, where only the first column is known.

With --where, of one pattern: in which functions of the device headers a warp's instructions are. With --clocks, where by a
model of an SM its time goes: machine_clocks.py. Both may ask for few --queries of --tokens keys, as in decoding, whose chunks
of keys a second kernel merges: --of merge.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import tempfile

import machine_clocks
import machine_where

ROOT = pathlib.Path(__file__).resolve().parents[1]
WEFT = ROOT / "build/weft"
DRIVER = ROOT / "build/tests/machine/driver/libweft_machine.so"
LENGTHS = [256, 384, 512, 768, 1024]
DIM = 64
LANES = 32
PRODUCTS = {"sm_61": ("FFMA", LANES), "sm_80": ("HMMA", 16 * 8 * 16)}  # multiply-adds of one instruction

# What is masked by bounds is so by comparing positions; by lists, by what a table or an input says.
PATTERNS = [
    ("dense", "dense", "dense", []),
    ("causal", "dense", "causal", []),
    ("window", "window", "window", ["-D", "width=200"]),
    ("hierarchical", "hierarchical", None, []),
    ("bigbird", "bigbird", None, []),
    ("adaptive", "adaptive", "adaptive", []),
    ("strided_local", "deepspeed_fixed", "deepspeed_fixed", []),
    ("longnet", "longnet", None, ["-D", "segments=[128,256,512]"]),
    ("documents", "pattern documents { input doc: i32[batch, tokens]; keep causal & document(doc); }", None, []),
    ("dropout", "pattern dropped { keep causal; dropout 0.1; }", None, []),
]


OF_DOCUMENT = 200  # tokens

# How many products of [rows, dim] and [dim, keys], or as large, each pass takes.
PASSES = {"forward": 2, "dq": 3, "dkdv": 4}

ALSO = {"explain": ["--json"], "emit": ["--stage", "cuda", "--whole"]}


def weft(command, file, pattern, options, target, n=None, environment={}):
    named = ["--pattern", pattern] if pattern else []
    tokens = ["--tokens", str(n)] if n is not None else []
    shape = [*tokens, "--heads", "1", "--dtype", "f16", "--target", target]
    shape += ["--dim", str(DIM)] if "--dim" not in options else []
    ran = subprocess.run([WEFT, command, file, *named, *options, *shape, *ALSO.get(command, [])],
                         capture_output=True, text=True, env={**os.environ, **environment})
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    return ran.stdout


def solve(matrix, right):
    """Gauss, of as many unknowns as columns that are not zero everywhere."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        if abs(rows[column][column]) < 1e-9:
            return None
        for r in range(size):
            if r != column:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def fitted(samples):
    """(instructions, full, masked, tiles) of each length -> what each of the three costs, and how far that is off."""
    weights = [1 / s[0] ** 2 for s in samples]  # shares matter, not instructions
    # Where every tile has as many masked blocks as any other, these stand for the rest of the tile, too.
    for last in (4, 3):
        used = [c for c in range(1, last) if any(s[c] for s in samples)]
        left = [[sum(w * s[a] * s[b] for w, s in zip(weights, samples)) for b in used] for a in used]
        right = [sum(w * s[a] * s[0] for w, s in zip(weights, samples)) for a in used]
        found = solve(left, right)
        if found is not None:
            break
    else:
        return [None] * 3, None
    off = max(abs(sum(x * s[c] for x, c in zip(found, used)) / s[0] - 1) for s in samples)
    costs = dict(zip(used, found))
    return [costs.get(c) for c in range(1, 4)], off


def file_of(row, folder):
    name, file = row[:2]
    if not file.startswith("pattern"):
        return ROOT / f"examples/{file}.weft"
    path = pathlib.Path(folder) / f"{name}.weft"
    path.write_text(file + "\n")
    return path


def documents(n, folder):
    """A file of [1, n] i32: which document each token is of."""
    path = pathlib.Path(folder) / f"{n}.npy"
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': (1, {n})}}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    ids = struct.pack(f"<{n}i", *(token // OF_DOCUMENT for token in range(n)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + ids)
    return path


def with_inputs(row, n, folder):
    """The options of a row, and what `emit` has no need of."""
    return row[3] + (["--input", f"doc={documents(n, folder)}"] if "input doc" in row[1] else [])


def kernel_of(of):
    return {"merge": "weft_merge", "prepass": "weft_prepass"}.get(of, "weft_kernel")


def executed(row, target, path, n, folder, of, queries=None):
    """What the log says of the pass's first launch, where the profile is, and which launch of the kernel it was."""
    log, profile = (pathlib.Path(folder) / f"{n}.{what}" for what in ("json", "profile"))
    environment = {"WEFT_CUDA_DRIVER": str(DRIVER), "WEFT_MACHINE_SM": target[3:], "WEFT_MACHINE_LOG": str(log),
                   "WEFT_MACHINE_PROFILE": str(profile), "WEFT_MACHINE_PATH": str(pathlib.Path(folder) / f"{n}.path")}
    gradients = ["--grad", "random"] if of in ("dq", "dkdv") else []
    keys = ["--keys", str(n)] if queries else []
    weft("run", path, row[2], with_inputs(row, n, folder) + gradients + keys, "cuda", queries or n, environment)
    launches = [json.loads(line) for line in log.read_text().splitlines()]
    kernels = [i for i, launch in enumerate(launches) if launch["kernel"] == kernel_of(of)]
    # Terms of queries stand before each backward pass.
    begin = next((i for i, launch in enumerate(launches) if launch["kernel"] == "weft_terms"), 0)
    number = next(i for i, at in enumerate(kernels) if at >= begin) + (of == "dkdv")
    if of == "prepass":  # the last: of a list that is scored the first pools keys
        attends = next(i for i, launch in enumerate(launches) if launch["kernel"] == "weft_kernel")
        number = sum(at < attends for at in kernels) - 1
    return {**launches[kernels[number]], "number": kernels[number]}, profile, number


def where(row, options):
    """By instructions; by clocks, where so many `blocks` of threads share an SM."""
    target, of = options.target or "sm_80", options.of
    row = (*row[:3], [*row[3], "--dim", str(options.dim)])
    with tempfile.TemporaryDirectory() as folder:
        path = file_of(row, folder)
        launch, profile, number = executed(row, target, path, options.tokens, folder, of, options.queries)
        text_of = {"dq": ["--grad"], "dkdv": ["--grad", "--transposed"]}.get(of, [options.text] if options.queries else [])
        text = weft("emit", path, row[2], row[3] + text_of, target)
        kernel = machine_where.Kernel(kernel_of(of), text, target, WEFT, pathlib.Path(folder))
        if options.clocks:
            taken = kernel.folder / f"{options.tokens}.path.{launch['number']}"
            machine_clocks.show(kernel, taken, options.blocks, launch["warps"], options.cold)
        else:
            machine_where.show(kernel, profile, number, launch["blocks"] * launch["warps"])


def measure(row, target, of):
    name, _, pattern, _ = row
    instruction, products = PRODUCTS[target]
    with tempfile.TemporaryDirectory() as folder:
        path = file_of(row, folder)
        samples, ratio, keys = [], None, ""
        for n in LENGTHS:
            main, _, _ = executed(row, target, path, n, folder, of)
            facts = json.loads(weft("explain", path, pattern, with_inputs(row, n, folder), target, n))
            instructions = sum(main["executed"].values())
            samples.append((instructions / main["warps"], facts["tiles"]["full"], facts["tiles"]["partial"], main["blocks"]))
            ratio = instructions / (facts["pairs"] * PASSES[of] * DIM / products)
            keys = facts["keys"]
    (full, masked, rest), off = fitted(samples) if of == "forward" else ([None] * 3, None)
    text = lambda x: "-" if x is None else f"{x:,.0f}"
    share = "-" if off is None else f"{100 * off:.0f} %"
    print(f"{name:14} {target}  {ratio:8.1f} an {instruction}  {text(full):>8} {text(masked):>8} {text(rest):>8}  {share:>5}  {keys}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--target", choices=PRODUCTS)
    parser.add_argument("--where", choices=[row[0] for row in PATTERNS])
    parser.add_argument("--clocks", choices=[row[0] for row in PATTERNS])
    parser.add_argument("--blocks", type=int, default=2, help="of threads on an SM, with --clocks")
    parser.add_argument("--cold", action="store_true", help="with --clocks: no block of threads was on the SM before")
    parser.add_argument("--of", choices=[*PASSES, "merge", "prepass"], default="forward")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--queries", type=int, help="of as many keys as --tokens; else there are as many queries")
    parser.add_argument("--few", dest="text", action="store_const", const="--few", default="--decoding",
                        help="with --queries: more of them than decoding's text has rows for")
    parser.add_argument("--dim", type=int, default=DIM, help="with --where or --clocks")
    options = parser.parse_args()
    if options.of == "merge" and not options.queries:
        parser.error("--of merge wants --queries, few enough that keys are cut")
    if options.clocks and options.target == "sm_61":
        parser.error("--clocks reads stall counts as Volta and its successors have them: not of sm_61")
    if name := options.where or options.clocks:
        return where(next(row for row in PATTERNS if row[0] == name), options)
    if options.of == "merge" or options.queries:
        parser.error("--queries and --of merge go with --where or --clocks")
    print(f"f16, dim {DIM}, {LENGTHS[0]} to {LENGTHS[-1]} tokens, instructions of a warp; the first of {LENGTHS[-1]} tokens\n"
          f"{'':14} {'':5}  {'a useful product':>17}  {'full':>8} {'masked':>8} {'a tile':>8}  {'off':>5}  keys")
    for target in [options.target] if options.target else PRODUCTS:
        for row in PATTERNS:
            if options.only in (None, row[0]):
                try:
                    measure(row, target, options.of)
                except RuntimeError as error:
                    print(f"{row[0]:14} {target}  {error}", flush=True)


if __name__ == "__main__":
    main()
