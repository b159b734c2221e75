"""PyTorch's peers once more, in a process whose MKL takes an AMD processor for one of Intel's and so uses AVX-512: its
function mkl_serv_intel_cpu_true, which answers whether this is one, is replaced by one that says yes (LD_PRELOAD). The
process takes its turn when it is told to, so that all are measured in one run."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NAME = "MKL unlocked"
ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


def wanted():
    return "AuthenticAMD" in pathlib.Path("/proc/cpuinfo").read_text()


@dataclasses.dataclass
class Remote:
    """A contender that runs elsewhere."""
    name: str
    peer: str  # as the process calls it
    process: "Process"
    threads: int
    problem: str = ""
    times: list = dataclasses.field(default_factory=list)

    def milliseconds(self, count):
        return float(self.process.ask("time", self.peer, str(count), str(self.threads)))


class Process:
    """Fails with RuntimeError where there is no compiler for the one line of C, or the process ends."""

    def __init__(self, library, gradients):
        compiler = shutil.which("cc")
        if not compiler:
            raise RuntimeError("no C compiler")
        self.folder = tempfile.TemporaryDirectory()
        answer = pathlib.Path(self.folder.name) / "answer.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(answer)], input=ANSWER, text=True, check=True)
        self.process = subprocess.Popen([sys.executable, __file__, library, "grad" if gradients else "forward"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=dict(os.environ, LD_PRELOAD=str(answer)))

    def ask(self, *words):
        print(*words, sep="\t", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process of PyTorch's unlocked peers ended")
        return answer.rstrip("\n")

    def contenders(self, row, threads):
        """Those of a row of workloads.everything()."""
        of = row.workload
        for words in filter(None, self.ask("row", of.name, str(of.tokens), str(of.dim), str(threads)).split("\t")):
            name, problem = words.split("|", 1)
            yield Remote(f"{name}, {NAME}", name, self, threads, problem)


def serve(library_path, gradients):
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "bench" / "pytorch"), str(root / "bench" / "cpu")]
    # What libraries print must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    import peers
    import workloads
    from contenders import Weft, launches, make_inputs, make_sets, peer_contender
    from library import Library

    torch._dynamo.config.cache_size_limit = 64
    device, ready = torch.device("cpu"), {}
    by_name = {(row.workload.name, row.workload.tokens, row.workload.dim): row.workload for row in workloads.chosen(gradients)}
    for words in sys.stdin:
        what, *rest = words.rstrip("\n").split("\t")
        if what == "row":
            workload = by_name[rest[0], int(rest[1]), int(rest[2])]
            torch.set_num_threads(int(rest[3]))
            sets, inputs = make_sets(torch, workload, device), make_inputs(torch, workload, device)
            if workload.kind == "bigbird":
                Weft(torch, Library(library_path), device).draw_blocks(workload, "cpu", sets[0], inputs)
            made = [peer_contender(peers, name, make, sets, inputs, gradients)
                    for name, make in peers.peers_of(workload, device, compiled=True)]
            ready = {one.name: one for one in made}
            answer = "\t".join(f"{one.name}|{one.problem}" for one in made)
        else:
            torch.set_num_threads(int(rest[2]))
            answer = str(launches(ready[rest[0]].runs[0], int(rest[1])))
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] == "grad")
