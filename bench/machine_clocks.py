"""Where a warp's time goes by a model of an SM, in clocks, by function of the device headers.

The path that a warp of the kernel takes on the machine of tests/machine is played through four partitions, each with a
scheduler that issues one instruction a clock: stall counts and scoreboards as the assembler wrote them into the
instructions, pipes that are busy for some clocks, fixed latencies of loads. What the clocks of an instruction are is the
time from the issue of the one before to its own. Caches, clocks of memory and the other blocks of a grid are not known:
all blocks of threads on the SM take the same path, one some clocks behind the other. By how many is luck, and worth 6 %
where both multiply at once or in turns: the clocks are means of several. Use it to compare two texts.
"""

import collections
import re
import statistics
import struct
import sys

import machine_where

PARTITIONS = 4
IDLE, NEW_LINE = 1 << 30, 1 << 29  # PathMark of tests/machine/driver/launch.h
FROM_L2 = 280  # clocks of a load of a table that L1 does not have yet
IN_TURN, BETWEEN = 4, 300  # so many blocks of threads in one place; clocks from the end of one to the begin of the next
BEHIND = [300, 900, 2000, 4000]  # clocks from the begin of one block of threads on the SM to that of the next

# Pipe of a partition (lsu: of the SM), clocks that a warp's instruction keeps it busy, clocks until a scoreboard tells.
ROWS = [
    (r"HMMA", ("mma", 8, 0)),
    (r"F(FMA|ADD|MUL)|U?IMAD", ("fma", 2, 0)),
    (r"MUFU|I2F|F2I|F2F|POPC|FLO|BREV|I2FP", ("xu", 8, 14)),
    (r"LDSM", ("lsu", 4, 30)),
    (r"LDS\S*128", ("lsu", 4, 26)),
    (r"LDS\S*64", ("lsu", 2, 26)),
    (r"LDS", ("lsu", 1, 26)),
    (r"STS\S*128", ("lsu", 4, 20)),
    (r"STS\S*64", ("lsu", 2, 20)),
    (r"STS", ("lsu", 1, 20)),
    (r"SHFL", ("lsu", 1, 24)),
    (r"LDGSTS", ("lsu", 4, 500)),
    (r"LDG|STG", ("lsu", 2, 60)),  # of tables, which lie in L1
    (r"BAR", ("bar", 1, 20)),
    (r"BRA|BSSY|BSYNC|CALL|RET|EXIT|BREAK|WARPSYNC|BMOV", ("branch", 2, 0)),
    (r"S2R|S2UR|B2R|R2UR|VOTEU", ("special", 2, 20)),
    (r"NOP|CS2R", ("none", 0, 0)),
    (r"", ("alu", 2, 0)),
]
# Hopper's pipes are twice as wide where it says so.
WIDER = {"mma": 4, "fma": 1}

Instruction = collections.namedtuple("Instruction", "address name stall sets reads waits pipe busy latency")


def instructions(kernel, cubin, target):
    """Of each address of the kernel what the model asks of it: control bits are those of Volta and its successors."""
    out, ahead = {}, None
    for line in machine_where.listing(kernel, cubin, "-hex"):
        if found := re.search(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ +)?([A-Z]\S*?)[ ;]", line):
            ahead = int(found[1], 16), found[2]
        elif ahead and (found := re.match(r"\s*/\* (0x[0-9a-f]{16}) \*/\s*$", line)):
            address, name = ahead
            bits, ahead = int(found[1], 16), None
            pipe, busy, latency = next(row for pattern, row in ROWS if re.match(pattern, name))
            busy = WIDER.get(pipe, busy) if target >= "sm_90" and re.match("HMMA|F(FMA|ADD|MUL)", name) else busy
            out[address] = Instruction(address, name, bits >> 41 & 15, bits >> 46 & 7, bits >> 49 & 7, bits >> 52 & 63,
                                       pipe, busy, latency)
    return out


def taken(path, known, cold):
    """The instructions of a path; where the SM is `cold`, L1 has no table when a block of threads begins."""
    for (word,) in struct.iter_unpack("<i", path.read_bytes()):
        one = known[word & (NEW_LINE - 1)]
        if word & IDLE and one.pipe == "lsu":
            one = one._replace(pipe="none", busy=0, sets=7, reads=7)
        elif cold and word & NEW_LINE and one.name.startswith("LDG."):
            one = one._replace(latency=FROM_L2)
        yield one


class Warp:
    def __init__(self, block, begin):
        self.block, self.ready, self.at = block, begin, 0
        self.boards, self.copies, self.waits = [0] * 6, 0, False
        self.issued = begin


def ready_at(warp, next_one, free):
    """The first clock in which the warp's next instruction may be issued."""
    at = max([warp.ready] + [warp.boards[j] for j in range(6) if next_one.waits >> j & 1])
    if "DEPBAR" in next_one.name:
        at = max(at, warp.copies)
    ahead = {"lsu": 24, "xu": 8, "none": 1 << 60, "bar": 1 << 60}  # a queue stands before these
    return max(at, free.get(next_one.pipe, 0) - ahead.get(next_one.pipe, 0))


def play(path, blocks, warps, behind, in_turn=1):
    """Of each instruction of the path its clocks, the mean over all warps; and when each block ended. Where one has, the
    next begins in its place, `in_turn` of them.
    """
    all_warps = [Warp(b, b * behind) for b in range(blocks) for _ in range(warps)]
    ready = [[w for i, w in enumerate(all_warps) if i % PARTITIONS == p] for p in range(PARTITIONS)]
    free, lsu, last = [{} for _ in range(PARTITIONS)], 0, [0] * PARTITIONS
    arrived, left, now, clocks, ends = [0] * blocks, in_turn * len(all_warps), 0, [0.0] * len(path), []
    begun, ended = [1] * blocks, [0] * blocks
    while left:
        following = 1 << 60
        for p in range(PARTITIONS):
            free[p]["lsu"] = lsu
            for turn in range(len(ready[p])):
                warp = ready[p][(last[p] + turn) % len(ready[p])]
                if warp.waits or warp.at == len(path):
                    continue
                one = path[warp.at]
                at = ready_at(warp, one, free[p])
                if at > now:
                    following = min(following, at)
                    continue
                last[p] = (last[p] + turn) % len(ready[p])
                done = max(free[p].get(one.pipe, 0), now) + one.busy if one.pipe not in ("none", "bar") else now
                free[p][one.pipe] = done
                lsu = free[p]["lsu"]
                queued = done if one.pipe in ("lsu", "xu") else now
                if one.sets != 7:
                    warp.boards[one.sets] = max(warp.boards[one.sets], queued + one.latency)
                if one.reads != 7:
                    warp.boards[one.reads] = max(warp.boards[one.reads], now + 10)
                if one.name.startswith("LDGSTS"):
                    warp.copies = max(warp.copies, queued + one.latency)
                clocks[warp.at] += (now - warp.issued) / (in_turn * len(all_warps))
                warp.issued, warp.ready, warp.at = now, now + max(1, one.stall), warp.at + 1
                if warp.at == len(path):
                    left -= 1
                    ended[warp.block] += 1
                    if ended[warp.block] == warps:
                        ends.append(now)
                        if begun[warp.block] < in_turn:
                            begun[warp.block] += 1
                            ended[warp.block] = 0
                            for i, other in enumerate(all_warps):
                                if other.block == warp.block:
                                    other.__init__(warp.block, now + BETWEEN)
                if one.pipe == "bar":
                    arrived[warp.block] += 1
                    warp.waits = True
                    if arrived[warp.block] == warps:
                        arrived[warp.block] = 0
                        for other in all_warps:
                            if other.block == warp.block:
                                other.waits, other.ready = False, max(other.ready, now + 20)
                following = min(following, now + 1)
                break
        now = max(now + 1, following)
    return clocks, ends


def show(kernel, path, blocks, warps, cold):
    """Of a kernel and the path of one of its warps: clocks, as trees."""
    cubin = machine_where.compiled_kernel(kernel)
    known, of_address = instructions(kernel.name, cubin, kernel.target), machine_where.places(kernel.name, cubin)
    path = list(taken(path, known, cold))
    if not path:
        sys.exit("the block of threads to follow, WEFT_MACHINE_PATH_BLOCK or the first, is none of the launch")
    plays = [play(path, blocks, warps, behind) for behind in (BEHIND if blocks > 1 else BEHIND[:1])]
    clocks = [statistics.fmean(of_one) for of_one in zip(*(of for of, _ in plays))]
    first_end, end = (statistics.fmean(ends[at] for _, ends in plays) for at in (0, -1))
    _, ends = play(path, blocks, warps, BEHIND[1], in_turn=IN_TURN)
    of_tile = (ends[-1] - ends[blocks - 1]) / (len(ends) - blocks)
    products = [i for i, one in enumerate(path) if one.name.startswith("HMMA")]
    first, last = (products[0], products[-1] + 1) if products else (len(path), len(path))
    print(f"{blocks} blocks of {warps} warps on an SM; clocks until one has ended: {first_end:,.0f}, all: {end:,.0f}; "
          f"of each, where others follow: {of_tile:,.0f}")
    for what, begin, end in [("before the first product", 0, first), ("from there to the last", first, last),
                             ("behind it", last, len(path))]:
        if begin == end:
            continue
        spent = collections.Counter()
        for one, clocks_of_one in zip(path[begin:end], clocks[begin:end]):
            spent[one.address] += clocks_of_one
        print(f"\n{what}: {end - begin:,} instructions of a warp, in clocks:")
        machine_where.print_tree(machine_where.tree(spent, kernel.text, of_address), 0.01)
