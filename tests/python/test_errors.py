"""Bad input: one exception of the right class, in the user's terms."""

import subprocess
import sys

import numpy as np
import pytest

import weft

X = np.ones((1, 6, 2, 8), np.float32)

REFUSED = {
    "no array": (lambda: weft.attention([1.0], X, X), TypeError, "q is of type list; expected an array of NumPy"),
    "no pattern": (lambda: weft.attention(X, X, X, 3), TypeError, "the pattern is a int"),
    "unknown name": (lambda: weft.attention(X, X, X, "longnt"), weft.PatternError, "did you mean 'longnet'"),
    "unknown parameter": (lambda: weft.attention(X, X, X, "window", widht=3), weft.PatternError, "no parameter 'widht'"),
    "parameter of no type": (lambda: weft.attention(X, X, X, "window", width="3"), TypeError, "the parameter 'width' is a str"),
    "axes": (lambda: weft.attention(X[0], X, X), weft.ArgumentError, r"q has 3 axes: \[6, 2, 8\]; expected 4"),
    "axes of k": (lambda: weft.attention(X, X[0], X), weft.ArgumentError, r"k has 3 axes"),
    "heads": (lambda: weft.attention(X, X, X[:, :, :1]), weft.ArgumentError, r"v, dimension 2 \(heads\): the extent is 1; expected 2"),
    "dims": (lambda: weft.attention(X, X[..., :4], X), weft.ArgumentError, "k, dimension 3"),
    "integers": (lambda: weft.attention(X.astype(int), X, X), weft.ArgumentError, "q is i64; expected f32, f16, bf16 or f64"),
    "other bytes": (lambda: weft.attention(X.astype(">f4"), X, X), weft.ArgumentError, "q is of format '>f'"),
    "bytes in between": (
        lambda: weft.attention(np.zeros((1, 6, 2, 8), [("x", "f4"), ("y", "u1")])["x"], X, X),
        weft.ArgumentError,
        "q: axis 3 has a stride of 5 bytes",
    ),
    "mixed dtypes": (lambda: weft.attention(X, X.astype(np.float16), X), weft.ArgumentError, "k is f16; expected f32, as q"),
    "f32 kernel": (lambda: weft.compile("dense", dim=8, dtype="f32")(*3 * (X.astype(np.float16),)), weft.ArgumentError, "f16"),
    "dim left open": (lambda: weft.compile("dense", dtype="f32"), weft.ArgumentError, "leaves dim open"),
    "dtype of no tensor": (lambda: weft.compile("dense", dim=8, dtype="complex64"), weft.ArgumentError, "no dtype 'complex64'"),
    "layout": (lambda: weft.attention(X, X, X, layout="nbhd"), weft.ArgumentError, "layout is 'nbhd'"),
    "dropout": (lambda: weft.attention(X, X, X, dropout=1.5), weft.ArgumentError, "dropout is 1.5"),
    "missing input": (lambda: weft.attention(X, X, X, "longformer"), weft.ArgumentError, "input 'marked' is missing"),
    "input of another dtype": (
        lambda: weft.attention(X, X, X, "longformer", inputs={"marked": np.ones(6, np.int64)}),
        weft.ArgumentError,
        "the input 'marked' is i64; expected u8",
    ),
    "input nobody knows": (lambda: weft.attention(X, X, X, inputs={"z": X}), weft.ArgumentError, "no input 'z'"),
    "offset": (lambda: weft.attention(X, X, X, offset="1"), TypeError, "offset is a str"),
    "stream": (lambda: weft.attention(X, X, X, stream="1"), TypeError, "stream is a str"),
    "lse of branches": (lambda: weft.attention(X, X, X, "dilated_attention", return_lse=True), weft.ArgumentError, "one per branch"),
    "lse of sigmoid": (lambda: weft.attention(X, X, X, "sigmoid_attention", return_lse=True), weft.ArgumentError, "has none"),
    "out of another shape": (lambda: weft.attention(X, X, X, out=X[:, 1:].copy()), weft.ArgumentError, "out has the shape"),
    "out of another dtype": (lambda: weft.attention(X, X, X, out=X.astype(np.float64)), weft.ArgumentError, "out is f64"),
    "out that is strided": (
        lambda: weft.attention(X, X, X, out=np.ones((1, 6, 2, 16), np.float32)[..., ::2]),
        weft.ArgumentError,
        "out: the last axis has stride 2",
    ),
    "out that is read-only": (lambda: weft.attention(X, X, X, out=np.broadcast_to(X, X.shape)), weft.ArgumentError, "out is read-only"),
    "no file": (lambda: weft.compile("nowhere.weft", dim=8, dtype="f32"), FileNotFoundError, "nowhere.weft"),
    "no such target": (lambda: weft.attention(X, X, X, target="sm_2"), weft.ArgumentError, "sm_2"),
    "no option": (lambda: weft.Engine(cash_dir="x"), TypeError, "cash_dir"),
    "negative threads": (lambda: weft.Engine(threads=-1), weft.ArgumentError, "threads"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input(case):
    call, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, (ValueError, TypeError, OSError))


def test_reports_have_carets_and_places():
    with pytest.raises(weft.PatternError) as caught:
        weft.compile("pattern p {\n  keep causl;\n  branch windw(3, 0);\n}", dim=8, dtype="f32")
    assert "2 |   keep causl;\n   |        ^^^^^" in str(caught.value)
    first, second = caught.value.diagnostics
    assert (first.code, first.line, first.column) == ("E0201", 2, 8)
    assert second.line == 3 and "windw" in second.message


def test_options_against_the_text():
    with pytest.raises(weft.PatternError, match="dim is 64 here and 8 in the options"):
        weft.attention(X, X, X, "pattern p { dim 64; keep causal; }")
    with pytest.raises(weft.PatternError, match="name one of them: a, b"):
        weft.attention(X, X, X, "pattern a { keep causal; } pattern b { keep causal; }")


def test_warnings_are_python_warnings():
    with pytest.warns(weft.PatternWarning, match=r"W\d{4}") as caught:
        weft.compile("pattern p { keep window(-2, 6); }", dim=8, dtype="f32")
    assert caught[0].filename == __file__


def test_a_missing_compiler_says_what_mends_it():
    engine = weft.Engine(llvm="/nowhere/libLLVM.so", no_cache=True)
    with pytest.raises(weft.UnavailableError, match="/nowhere/libLLVM.so"):
        weft.compile("dense", dim=8, dtype="f32", engine=engine)
    with pytest.raises(weft.UnavailableError):
        weft.attention(X, X, X, engine=weft.Engine(no_compile=True, no_cache=True))


def test_import_brings_nothing_along():
    program = (
        "import sys; before = set(sys.modules); import weft; new = {m.partition('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(new & {'numpy', 'torch', 'jax', 'cupy', 'logging', 'inspect', 'json'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_is_quick():
    """Milliseconds of this process alone, the best of some: under 50 on any machine that compiles Weft."""
    program = "import time; begin = time.process_time(); import weft; print(1e3 * (time.process_time() - begin))"
    times = [float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout) for _ in range(8)]
    assert min(times) < 50, times


@pytest.mark.parametrize("whom", ["itself", "its group"])
def test_an_interrupted_compilation_is_a_keyboard_interrupt(whom):
    """… and the next one is as if nothing had been."""
    program = """
import os, signal, sys, threading
import numpy as np
import weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs in the background ignore it
x = np.ones((1, 8, 1, 16), np.float32)
want = weft.attention(x, x, x, "causal")
target = "sm_80" if sys.argv[1] == "its group" else "cpu"  # compiled by a process of its own, which hears of it, too
kill = (lambda: os.killpg(0, signal.SIGINT)) if sys.argv[1] == "its group" else lambda: os.kill(os.getpid(), signal.SIGINT)
engine = weft.Engine(no_cache=True)
threading.Timer(0.1, kill).start()
try:
    for width in range(1, 100000):
        try:
            weft.compile("window", width=width, dim=16, dtype="f16", target=target, engine=engine)
        except weft.UnavailableError:
            pass  # its compiler is not there, or was interrupted
    print("never")
except KeyboardInterrupt:
    assert (weft.attention(x, x, x, "causal") == want).all()
    weft.compile("window", width=3, dim=32, dtype="f32", engine=engine)
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program, whom], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    assert "never awaited" not in done.stderr and "leaked" not in done.stderr
