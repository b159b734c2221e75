"""Where the warps of a kernel spend instructions, by function of the device headers.

The machine of tests/machine counts how often each instruction is executed; the same text, compiled with -lineinfo by the same
NVRTC, says which line each stands for and what that was inlined into.
"""

import collections
import ctypes
import json
import os
import re
import subprocess

FILE = "kernel.cu"
# A kernel by its name, the text that it stands in, and where its files go.
Kernel = collections.namedtuple("Kernel", "name text target weft folder")


def nvrtc_of(weft, target):
    """The library that weft compiles with for the target: the first that doctor names for it."""
    items = json.loads(subprocess.run([weft, "doctor", "--json"], capture_output=True, text=True).stdout)["items"]
    for item in items:
        if item["name"] == "nvrtc" and item["usable"] and target in item.get("architectures", []):
            return item["path"]
    raise RuntimeError(f"weft doctor names no NVRTC that knows {target}")


def compiled(library, text, target, cubin):
    nvrtc, program, size = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_size_t()
    words = [b"--std=c++17", b"-default-device", b"-lineinfo", b"--gpu-architecture=" + target.encode()]
    options = (ctypes.c_char_p * len(words))(*words)
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), FILE.encode(), 0, None, None)
    if nvrtc.nvrtcCompileProgram(program, len(words), options) != 0:
        raise RuntimeError(f"{library} refuses the text")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, out)
    cubin.write_bytes(out.raw)


def functions(text):
    """Of each line, from 1, the function that it is in."""
    begin = re.compile(r"(?:extern|WEFT_WALK|constexpr|inline| *(?:static )?(?:constexpr )?__device__|__global__)[^=;]*?(\w+)\(")
    out, name = [""], "?"
    for line in text.splitlines():
        found = begin.match(re.sub(r"__\w+__\([^)]*\)|^template <[^>]*>", "", line))
        name = found[1] if found else name
        out.append(name)
    return out


def compiled_kernel(kernel):
    cubin = kernel.folder / "kernel.cubin"
    compiled(nvrtc_of(kernel.weft, kernel.target), kernel.text, kernel.target, cubin)
    return cubin


def listing(kernel, cubin, option):
    """The lines that the disassembler prints of the kernel."""
    disassembler = os.environ.get("WEFT_NVDISASM", "nvdisasm")
    printed = subprocess.run([disassembler, option, "-c", cubin], capture_output=True, text=True, check=True).stdout
    inside = False
    for line in printed.splitlines():
        if re.match(r"\s*\.section\s", line):
            inside = f".text.{kernel}," in line
        elif inside:
            yield line


def places(kernel, cubin):
    """Of each address of the kernel: lines, from the instruction's own outwards."""
    out, lines, ahead = {}, [], []
    for line in listing(kernel, cubin, "-gi"):
        if found := re.search(rf'//## File "[^"]*{FILE}", line (\d+)', line):
            ahead.append(int(found[1]))
        elif found := re.search(r"/\*([0-9a-f]{4,})\*/\s+\S.*[;}]", line):
            lines, ahead = ahead or lines, []
            out[int(found[1], 16)] = lines
    return out


def tree(counts, text, of_address):
    """Sums over each function and what was inlined into it: {(outer, …, inner): instructions}."""
    names, sums = functions(text), collections.Counter()
    for address, count in counts.items():
        chain = tuple(dict.fromkeys(names[line] for line in reversed(of_address.get(address, []))))
        for depth in range(len(chain) + 1):
            sums[chain[:depth]] += count
    return sums


def print_tree(sums, least=0.005):
    whole = sums[()]

    def walk(chain, depth):
        print(f"{sums[chain]:10,.0f} {100 * sums[chain] / whole:6.1f} %  {'  ' * depth}{chain[-1] if chain else 'a warp'}")
        inner = [c for c in sums if len(c) == len(chain) + 1 and c[: len(chain)] == chain and sums[c] >= least * whole]
        for one in sorted(inner, key=lambda c: -sums[c]):
            walk(one, depth + 1)

    walk((), 0)


def executed(kernel, profile, number):
    """Of the kernel's launch of that number: how often each instruction was executed, by its address."""
    counts, launch = {}, -1
    for line in profile.open():
        name, address, count, _ = line.split(maxsplit=3)
        address = int(address, 16)
        if name == kernel and address == 0:
            launch += 1
        if name == kernel and launch == number:
            counts[address] = int(count)
    return counts


def show(kernel, profile, number, warps):
    """Of a kernel and what its launch of that number executed: instructions of one of so many warps, as a tree."""
    counts = {address: count / warps for address, count in executed(kernel.name, profile, number).items()}
    of_address = places(kernel.name, compiled_kernel(kernel))
    if of_address.keys() != counts.keys():
        raise RuntimeError(f"{len(counts)} instructions were executed, and -lineinfo made {len(of_address)} of the text")
    print_tree(tree(counts, kernel.text, of_address))
