"""Who is compared: each contender computes one workload, on tensors [batch, heads, tokens, dim]."""

import dataclasses
import functools
import time

from library import UNUSED_PLACE, Engine, Error, tensor
from workload import PATTERNS

CACHE_BYTES = 256 << 20  # tensors of a round come to more than any cache holds
MOST_SETS = 8
TOLERANCE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}


@dataclasses.dataclass
class Contender:
    name: str
    runs: list = None  # one function for each set of tensors; gives (O,), or (dQ, dK, dV)
    compile_ms: float = None
    plan_ms: float = None
    flops: int = None  # None: the workload's
    times: list = dataclasses.field(default_factory=list)
    error: float = None
    problem: str = ""

    def milliseconds(self, count):
        return launches(self.runs[0], count)


def launches(run, count):
    """Milliseconds of each of so many."""
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) * 1e3 / count


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


# ---------------------------------------------------------------- tensors


def make_sets(torch, workload, device):
    """Normal random q, k, v: several sets of them where one would stay in a cache."""
    shape = (workload.batch, workload.heads, workload.tokens, workload.dim)
    of_q = (workload.batch, workload.heads, workload.queries or workload.tokens, workload.dim)
    of_k = (workload.batch, workload.kv_heads or workload.heads, workload.tokens, workload.dim)
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[workload.dtype]
    bytes_of_set = 4 * functools.reduce(lambda a, b: a * b, shape) * dtype.itemsize
    count = max(1, min(MOST_SETS, -(-CACHE_BYTES // bytes_of_set))) if device.type == "cuda" else 1
    generator = torch.Generator(device).manual_seed(1)
    make = lambda of: torch.randn(of, device=device, generator=generator).to(dtype)
    return [[make(of_q), make(of_k), make(of_k)] for _ in range(count)]


def view(x, dtype):
    """A torch tensor [batch, heads, tokens, dim] as Weft's [batch, tokens, heads, dim]."""
    x = x.transpose(1, 2)
    return tensor(x.data_ptr(), dtype, x.shape, x.stride())


def plain(x, dtype):
    return tensor(x.data_ptr(), dtype, x.shape, x.stride())


def make_d_out(torch, q):
    """The same for all contenders; O is as large as Q."""
    return torch.randn(q.shape, device=q.device, generator=torch.Generator(q.device).manual_seed(2)).to(q.dtype)


def backward_of(torch, run, tensors):
    """PyTorch's autograd of what `run` computes, which is computed once."""
    out = run()
    d_out = make_d_out(torch, tensors[0])
    return lambda: torch.autograd.grad(out, tensors, d_out, retain_graph=True)


def make_inputs(torch, workload, device):
    if workload.kind != "documents":
        return {}
    numbers = [number for number, length in enumerate(workload.documents) for _ in range(length)]
    return {"number": torch.tensor([numbers] * workload.batch, dtype=torch.int32, device=device)}


# ---------------------------------------------------------------- Weft


class Weft:
    def __init__(self, torch, library, device, threads=0):
        self.torch, self.library, self.device, self.threads = torch, library, device, threads
        self.engine = Engine(library)

    def compile(self, workload, target, gradient=False):
        begin = time.perf_counter()
        kernel = self.engine.compile(PATTERNS, workload.pattern, workload.params, workload.heads,
                                     workload.dim, workload.dtype, target, workload.kv_heads or workload.heads, gradient)
        return kernel, (time.perf_counter() - begin) * 1e3

    def gradients(self, forward, backward, workload, tensors, inputs):
        """Launches the backward pass of an O that was computed before."""
        torch, dtype = self.torch, workload.dtype
        q, k, v = tensors
        out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=self.device)
        d_out, (dq, dk, dv) = make_d_out(torch, q), (torch.full_like(x, float("nan")) for x in tensors)
        given = {"number": plain(inputs["number"], "i32")} if "number" in inputs else {}
        of_forward = [view(x, dtype) for x in (q, k, v, out)]
        where = dict(stream=self.stream(), threads=self.threads, lse=plain(lse, "f32"))
        forward.launch(*of_forward, given, **where)()
        launch = backward.launch(*of_forward, given, **where, d_out=view(d_out, dtype), dq=view(dq, dtype),
                                 dk=view(dk, dtype), dv=view(dv, dtype))

        def run():
            launch()
            return dq, dk, dv

        run.keeps = (out, lse, d_out)
        return run

    def stream(self):
        """Where PyTorch's own work is queued."""
        return self.torch.cuda.current_stream().cuda_stream if self.device.type == "cuda" else None

    def launch(self, kernel, workload, tensors, inputs, lists=()):
        out = self.torch.full_like(tensors[0], float("nan"))
        given = {"number": plain(inputs["number"], "i32")} if "number" in inputs else {}
        launch = kernel.launch(*(view(x, workload.dtype) for x in tensors), view(out, workload.dtype), given,
                               [plain(one, "i32") for one in lists], self.stream(), self.threads)

        def run():
            launch()
            return (out,)

        return run

    def contender(self, name, workload, target, sets, inputs):
        made = Contender(name)
        try:
            kernel, wall_ms = self.compile(workload, target)
            made.compile_ms, made.plan_ms = kernel.compile_ms, wall_ms - kernel.compile_ms - kernel.load_ms
            made.runs = [self.launch(kernel, workload, tensors, inputs) for tensors in sets]
            if workload.backward:
                backward, _ = self.compile(workload, target, gradient=True)
                made.compile_ms = backward.compile_ms
                made.runs = [self.gradients(kernel, backward, workload, tensors, inputs) for tensors in sets]
            made.runs[0]()
        except Error as error:
            made.problem = first_line(error)
        return made

    def draw_blocks(self, workload, target, tensors, inputs):
        """BigBird's blocks, as the kernel drew them: a table of truths for FlexAttention, numbers for the count."""
        torch, rows = self.torch, -(-workload.tokens // workload.block)
        kernel, _ = self.compile(workload, target)
        extents = kernel.list_extents(workload.batch, workload.tokens, workload.heads)[0]
        drawn = torch.full(extents, UNUSED_PLACE, dtype=torch.int32, device=self.device)
        self.launch(kernel, workload, tensors, inputs, [drawn])()
        drawn = drawn.cpu().tolist()[0]
        near = {(i, j) for i in range(rows) for j in range(rows) if i == 0 or j == 0 or abs(i - j) <= 1}
        workload.kept_blocks = [
            near | {(i, j) for i, row in enumerate(drawn[head % len(drawn)]) for j in row if j != UNUSED_PLACE}
            for head in range(workload.heads)
        ]
        table = torch.zeros(workload.heads, rows, rows, dtype=torch.bool)
        for head, kept in enumerate(workload.kept_blocks):
            table[head][tuple(zip(*kept))] = True
        inputs["table"] = table.to(self.device)


# ---------------------------------------------------------------- all of them


def in_a_tuple(run):
    return lambda: (run(),)


def peer_contender(peers, name, make, sets, inputs, backward=False):
    made = Contender(name)
    try:
        begin = time.perf_counter()
        for tensors in sets:
            if backward:
                tensors = [x.detach().requires_grad_() for x in tensors]
            run = make(*tensors, inputs)
            if isinstance(run, tuple):
                run, plan_ms = run
                made.plan_ms = made.plan_ms or plan_ms
            run = backward_of(peers.torch, run, tensors) if backward else in_a_tuple(run)
            made.runs = [*(made.runs or []), run]
            if len(made.runs) == 1:
                run()
                peers.wait(tensors[0].device)
                made.compile_ms = (time.perf_counter() - begin) * 1e3 - (made.plan_ms or 0)
    except Exception as error:  # whatever a library throws is why it does not take part
        made.problem, made.runs = first_line(error), None
    return made


def computes_the_same(workload, contender):
    """Autograd takes the LSE of each branch, by which gathered branches are merged, for constant."""
    return contender.flops is None and not (workload.backward and contender.name.startswith("gather"))


def largest_difference(outputs, wanted):
    """In units of the largest number wanted, where that is above 1: what one rounds to 16 bits the other may round to the
    neighbour. NaN where there is one: max() would pass it over."""
    largest = lambda x: x.abs().max().item()
    differences = [largest(of.float() - want.float()) / max(1, largest(want.float())) for of, want in zip(outputs, wanted)]
    return next((one for one in differences if one != one), max(differences))


def measure_errors(torch, workload, contenders):
    """The largest difference of each from the last peer, or None where there is nobody to compare with."""
    outputs = {one.name: one.runs[0]() for one in contenders if not one.problem and computes_the_same(workload, one)}
    peers = [name for name in outputs if not name.startswith("Weft")]
    if not peers:
        return
    wanted = outputs[peers[-1]]
    for one in contenders:
        if one.name not in outputs or one.name == peers[-1]:
            continue
        one.error = largest_difference(outputs[one.name], wanted)
        if not one.error <= TOLERANCE[workload.dtype]:  # NaN, too
            one.problem = f"wrong: differs by {one.error:.2g} from {peers[-1]}"


def contenders_of(torch, peers, weft, workload, targets, device, alone=False):
    sets, inputs = make_sets(torch, workload, device), make_inputs(torch, workload, device)
    if workload.kind == "bigbird":
        weft.draw_blocks(workload, next(iter(targets.values())), sets[0], inputs)
    out = [weft.contender(name, workload, target, sets, inputs) for name, target in targets.items()]
    others = [] if alone else peers.peers_of(workload, device)
    return out + [peer_contender(peers, name, make, sets, inputs, workload.backward) for name, make in others]
