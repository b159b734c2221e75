"""bench/gpu without a GPU and without PyTorch: the pairs it counts, the kernels it launches, what it prints.

gpu_test.py WEFT LIBWEFT.SO
"""

import ctypes
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "gpu"), str(BENCH / "pytorch")]

import contenders
import library
import pairs
import report
import workload as shared
import workloads

WEFT, LIBRARY = sys.argv[1:3]


def keeps(workload, h, q, k):
    """How often the pair is kept, by the definitions of the language."""
    if workload.causal and k > q:
        return 0
    if workload.kind == "dense":
        return 1
    if workload.kind == "window":
        return 1 if q - workload.width < k <= q else 0
    if workload.kind == "documents":
        number = [i for i, length in enumerate(workload.documents) for _ in range(length)]
        return 1 if k <= q and number[q] == number[k] else 0
    return sum(1 for w, r in zip(workload.segments, workload.rates)
               if q // w == k // w and q % w % r == h % r and k % w % r == h % r)


def explained(workload):
    with tempfile.NamedTemporaryFile("w", suffix=".weft") as file:
        file.write(shared.PATTERNS)
        file.flush()
        command = [WEFT, "explain", file.name, "--pattern", workload.pattern, "--target", "sm_61", "--json"]
        command += ["--grad"] if workload.backward else []
        for name, value in workload.params.items():
            command += ["-D", f"{name}={value}"]
        for name in ("tokens", "heads", "dim", "dtype", "batch"):
            command += ["--" + name, str(getattr(workload, name))]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Pairs(unittest.TestCase):
    def test_are_those_of_the_definitions(self):
        for workload in shared.small():
            if workload.kind == "bigbird":
                continue
            rows = range(workload.tokens)
            counted = sum(keeps(workload, h, q, k) for h in range(workload.heads) for q in rows for k in rows)
            self.assertEqual(workload.pairs(), counted, workload)

    def test_are_those_that_weft_counts(self):
        for workload in shared.small():
            if workload.kind in ("bigbird", "documents"):  # which depend on what is drawn and given
                continue
            said = explained(workload)
            self.assertEqual(workload.batch * workload.pairs(), said["pairs"], workload)
            self.assertEqual(workload.flops(), said["flops"], workload)

    def test_of_backward_passes_have_five_products(self):
        for workload in (shared.Workload("window", "window", 300, 3, 16, width=37, dtype="f32", backward=True),
                         shared.Workload("dense", "dense", 200, 3, 16, batch=2, causal=True, dtype="f32", backward=True)):
            self.assertEqual(workload.flops(), explained(workload)["flops"], workload)

    def test_of_what_only_cpus_compare_are_those_that_weft_counts(self):
        for heads in (8, 3):
            self.check_count(shared.Workload("groups", "groups", 384, heads, 16, segments=(64, 128, 192), rates=(1, 2, 5)))
        for dilation in (1, 2):
            self.check_count(shared.Workload("natten", "neighborhood", 4096, 1, 16, width=13, dilation=dilation))

    def check_count(self, workload):
        self.assertEqual(workload.pairs(), explained(workload)["pairs"], workload)

    def test_of_long_workloads_are_counted_at_once(self):
        for workload in workloads.everything():
            if workload.kind != "bigbird":
                self.assertGreater(workload.flops(), 1e10, workload)

    def test_of_blocks_know_the_last_one_is_short(self):
        self.assertEqual(pairs.blocks(70, 32, [{(0, 0), (2, 1)}, {(2, 2)}]), 32 * 32 + 6 * 32 + 6 * 6)


class Launches(unittest.TestCase):
    """Of the interpreter: the same calls, with nothing to compile."""

    HEADS, TOKENS, DIM = 2, 7, 4

    def setUp(self):
        self.engine = library.Engine(library.Library(LIBRARY))
        numbers = random.Random(1)
        self.size = self.HEADS * self.TOKENS * self.DIM
        self.data = [(ctypes.c_float * self.size)(*(numbers.gauss(0, 1) for _ in range(self.size))) for _ in "qkv"]
        self.out = (ctypes.c_float * self.size)(*[math.nan] * self.size)

    def view(self, data):
        """Memory [heads, tokens, dim] as [1, tokens, heads, dim], the way PyTorch's is passed on."""
        h, n, d = self.HEADS, self.TOKENS, self.DIM
        return library.tensor(ctypes.addressof(data), "f32", (1, n, h, d), (h * n * d, d, n * d, 1))

    def row(self, data, h, n):
        begin = (h * self.TOKENS + n) * self.DIM
        return data[begin:begin + self.DIM]

    def launch(self, pattern, params=None, **more):
        kernel = self.engine.compile(shared.PATTERNS, pattern, params or {}, self.HEADS, self.DIM, "f32", "interpreter")
        kernel.launch(*map(self.view, self.data), self.view(self.out), **more)()
        return kernel

    def expect(self, kept):
        q, k, v = self.data
        for h in range(self.HEADS):
            for n in range(self.TOKENS):
                scores = {
                    m: sum(a * b for a, b in zip(self.row(q, h, n), self.row(k, h, m))) / math.sqrt(self.DIM)
                    for m in range(self.TOKENS) if kept(n, m)
                }
                weights = {m: math.exp(s) for m, s in scores.items()}
                for i, got in enumerate(self.row(self.out, h, n)):
                    want = sum(w * self.row(v, h, m)[i] for m, w in weights.items()) / sum(weights.values())
                    self.assertAlmostEqual(got, want, places=5)

    def test_compute_what_they_say(self):
        kernel = self.launch("dense_causal")
        self.assertEqual(kernel.target, "interpreter")
        self.expect(lambda q, k: k <= q)

    def test_take_parameters(self):
        self.launch("window", {"width": 3})
        self.expect(lambda q, k: q - 3 < k <= q)

    def test_take_inputs(self):
        number = (ctypes.c_int32 * self.TOKENS)(0, 0, 0, 1, 1, 2, 2)
        view = library.tensor(ctypes.addressof(number), "i32", (1, self.TOKENS), (self.TOKENS, 1))
        self.launch("documents", inputs={"number": view})
        self.expect(lambda q, k: k <= q and number[q] == number[k])

    def gradients(self, pattern, d_out):
        """dQ, dK and dV, of the O and LSE that the forward leaves."""
        lse = (ctypes.c_float * (self.HEADS * self.TOKENS))()
        of_lse = library.tensor(ctypes.addressof(lse), "f32", (1, self.HEADS, self.TOKENS),
                                (self.HEADS * self.TOKENS, self.TOKENS, 1))
        self.launch(pattern, lse=of_lse)
        found = [(ctypes.c_float * self.size)(*[math.nan] * self.size) for _ in "qkv"]
        dq, dk, dv = map(self.view, found)
        kernel = self.engine.compile(shared.PATTERNS, pattern, {}, self.HEADS, self.DIM, "f32", "interpreter",
                                     gradient=True)
        kernel.launch(*map(self.view, self.data), self.view(self.out), lse=of_lse, d_out=self.view(d_out), dq=dq, dk=dk,
                      dv=dv)()
        return found

    def test_compute_gradients(self):
        numbers, step = random.Random(2), 1e-2
        d_out = (ctypes.c_float * self.size)(*(numbers.gauss(0, 1) for _ in range(self.size)))
        found = self.gradients("dense_causal", d_out)

        def sum_with(tensor, i, more):
            kept = tensor[i]
            tensor[i] = kept + more
            self.launch("dense_causal")
            tensor[i] = kept
            return sum(a * b for a, b in zip(self.out, d_out))

        for tensor, gradient in zip(self.data, found):
            for i in range(0, self.size, 5):
                slope = (sum_with(tensor, i, step) - sum_with(tensor, i, -step)) / (2 * step)
                self.assertAlmostEqual(gradient[i], slope, delta=2e-3)

    def test_show_their_lists(self):
        kernel = self.engine.compile(shared.PATTERNS, "bigbird", {"block": 1}, self.HEADS, self.DIM, "f32",
                                     "interpreter")
        extents = kernel.list_extents(1, self.TOKENS, self.HEADS)
        self.assertEqual(len(extents), 1)
        self.assertEqual(extents[0][2:], [self.TOKENS, 3])

    def test_that_fail_say_why(self):
        with self.assertRaisesRegex(library.Error, "input 'number' is missing"):
            self.launch("documents")
        with self.assertRaisesRegex(library.Error, "width"):
            self.engine.compile(shared.PATTERNS, "window", {}, 1, 8, "f32", "interpreter")


class Contender:
    """As bench.py makes them."""

    def __init__(self, **given):
        self.name, self.times, self.compile_ms, self.plan_ms = "Weft", [2.0, 1.0, 4.0], 300.4, None
        self.error, self.problem, self.flops = 1e-3, "", None
        self.__dict__.update(given)


class Report(unittest.TestCase):
    WORKLOAD = shared.Workload("dense", "dense", 1000, 10, 50)  # 2 × 100 × 10^7 = 2 GFLOP

    def test_rows_stand_under_their_titles(self):
        words = report.row(self.WORKLOAD, Contender(), 4e12).split()
        self.assertEqual(words, ["dense", "1000", "50", "bf16", "Weft", "2.000", "1.000..4.000", "1.0", "0.25", "300", "–",
                                 "1.0e-03"])
        self.assertEqual(len(report.header()), len(report.row(self.WORKLOAD, Contender(), 4e12)))

    def test_the_yardstick_has_flops_of_its_own(self):
        words = report.row(self.WORKLOAD, Contender(flops=8e9), 4e12).split()
        self.assertEqual(words[7:9], ["4.0", "1.00"])

    def test_those_that_do_not_take_part_say_why(self):
        line = report.row(self.WORKLOAD, Contender(problem="no such backend", times=[]), None)
        self.assertTrue(line.endswith("no such backend"), line)

    def test_without_a_yardstick_there_is_no_share(self):
        self.assertIn(" – ", report.row(self.WORKLOAD, Contender(), None))


class Numbers:
    """What errors are measured of: a tensor, as far as that takes."""

    def __init__(self, *values):
        self.values = values

    def float(self):
        return self

    def __sub__(self, other):
        return Numbers(*(a - b for a, b in zip(self.values, other.values)))

    def abs(self):
        return Numbers(*map(abs, self.values))

    def max(self):  # as PyTorch's, of NaN, too
        return Numbers(next((x for x in self.values if x != x), max(self.values)))

    def item(self):
        return self.values[0]


class Errors(unittest.TestCase):
    def measured(self, workload, **outputs):
        """By name, of what each computes: tuples of numbers."""
        made = [contenders.Contender(name.replace("_", " "), [lambda of=of: tuple(Numbers(*x) for x in of)])
                for name, of in outputs.items()]
        contenders.measure_errors(None, workload, made)
        return {one.name: (one.error, one.problem) for one in made}

    def test_are_of_every_output(self):
        workload = shared.Workload("dense", "dense", 8, 1, 8, dtype="f16", backward=True)
        found = self.measured(workload, Weft=[(1, 2), (3, 4), (5, 6.25)], SDPA=[(1, 2), (3, 4), (5, 6)])
        self.assertEqual(found["Weft"][0], 0.25 / 6, "of numbers up to 6")
        self.assertIn("wrong: differs by 0.042 from SDPA", found["Weft"][1])
        self.assertEqual(found["SDPA"], (None, ""))

    def test_are_small_where_results_are_right(self):
        workload = shared.Workload("dense", "dense", 8, 1, 8, dtype="f16")
        self.assertEqual(self.measured(workload, Weft=[(1, 2)], SDPA=[(1, 2.001)])["Weft"][1], "")

    def test_grow_with_what_is_rounded(self):
        workload = shared.Workload("dense", "dense", 8, 1, 8, dtype="bf16", backward=True)
        self.assertEqual(self.measured(workload, Weft=[(1, 8.03125)], SDPA=[(1, 8)])["Weft"][1], "")
        self.assertIn("wrong", self.measured(workload, Weft=[(1.03125, 0)], SDPA=[(1, 0)])["Weft"][1])

    def test_see_what_is_no_number(self):
        workload = shared.Workload("dense", "dense", 8, 1, 8, dtype="f16", backward=True)
        for nan in ([(math.nan, 2), (3, 4)], [(1, 2), (3, math.nan)]):
            self.assertIn("wrong", self.measured(workload, Weft=nan, SDPA=[(1, 2), (3, 4)])["Weft"][1])

    def test_leave_out_autograd_of_gathered_branches(self):
        """It takes the LSE that branches are merged by for constant: its gradients are others."""
        workload = shared.Workload("longnet", "longnet", 8, 1, 8, dtype="f16", segments=(4, ), rates=(1, ), backward=True)
        outputs = dict(Weft=[(1, 2)], FlexAttention=[(1, 2)], gather_flash=[(9, 9)])
        found = self.measured(workload, **outputs)
        self.assertEqual(found, {"Weft": (0, ""), "FlexAttention": (None, ""), "gather flash": (None, "")})
        workload.backward = False
        self.assertIn("wrong", self.measured(workload, **outputs)["Weft"][1])


class Command(unittest.TestCase):
    def test_is_skipped_with_a_reason_where_something_is_missing(self):
        done = subprocess.run([sys.executable, "-B", str(BENCH / "gpu" / "bench.py"), "--library", "/nowhere/libweft.so"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^bench/gpu: skipped: .*(PyTorch|libweft\.so)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
