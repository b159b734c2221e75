"""Memory: nothing is copied that need not be, nothing is kept, nothing is held while a kernel runs."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weft
from weft import _weft


class Lent:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array, versioned=True, device=(1, 0)):
        self.array, self.versioned, self.device, self.asked = array, versioned, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **how):
        self.asked.append(dict(how))
        if not self.versioned and "max_version" in how:
            raise TypeError("unexpected keyword argument 'max_version'")
        how.pop("stream", None)
        return self.array.__dlpack__(**how)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_is_enough(tensors, versioned):
    q, k, v = tensors()
    want, want_lse = weft.attention(q, k, v, "causal", return_lse=True)
    found, lse = weft.attention(*(Lent(x, versioned) for x in (q, k, v)), "causal", return_lse=True)
    assert isinstance(found, weft.Array) and found.shape == q.shape and found.dtype == "f32"
    np.testing.assert_array_equal(np.from_dlpack(found), want)
    np.testing.assert_array_equal(np.from_dlpack(lse), want_lse)
    again = weft.attention(found, k, v, "causal")  # results are arguments
    np.testing.assert_array_equal(np.from_dlpack(again), weft.attention(want, k, v, "causal"))


def test_gradients_by_dlpack(tensors):
    q, k, v = tensors()
    want = weft.vjp(q, k, v, "causal")[1](np.ones_like(q))
    found = weft.vjp(*(Lent(x) for x in (q, k, v)), "causal")[1](Lent(np.ones_like(q)))
    np.testing.assert_array_equal(np.from_dlpack(found.k), want.k)


def test_arrays_outlive_what_made_them():
    made = weft.Array([2, 3], "f32")
    kept = np.from_dlpack(made)
    other = np.from_dlpack(made)
    del made
    gc.collect()
    kept[...] = 5
    assert (other == 5).all() and kept.shape == (2, 3) and kept.ctypes.data % 64 == 0
    made = weft.Array([4], "f16")
    capsule = made.__dlpack__()  # nobody takes the tensor out of it
    assert "dltensor" in repr(capsule)
    del capsule
    with pytest.raises(BufferError):
        made.__dlpack__(copy=True)


def test_inputs_are_read_in_place(tensors):
    q, _, _ = tensors()
    assert _weft.View(q, "q").address == q.ctypes.data
    assert _weft.View(Lent(q), "q").address == q.ctypes.data
    part = q[:, 3:, 1:]
    assert _weft.View(part, "q").address == part.ctypes.data


def test_another_device_is_asked_with_its_stream(tensors):
    q, k, v = tensors()
    away = Lent(q, device=(2, 1))
    _weft.View(away, "q", 0)
    _weft.View(away, "q", 77)
    assert [how["stream"] for how in away.asked] == [1, 77]
    with pytest.raises(weft.ArgumentError, match="k is on cpu; expected cuda:1, as q"):
        weft.compile("causal", dim=16, dtype="f32")(_OnDevice(q), k, v)


class _OnDevice(Lent):
    """NumPy cannot export as a GPU's array: the capsule says so itself."""

    def __init__(self, array):
        super().__init__(array, device=(2, 1))

    def __dlpack__(self, **how):
        import ctypes

        capsule = super().__dlpack__(**how)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # major, minor, context, deleter, flags, data, then the device
        device = (ctypes.c_int32 * 2).from_address(pointer(capsule, b"dltensor_versioned") + 40)
        device[0], device[1] = 2, 1
        return capsule


def references(*objects):
    return [sys.getrefcount(x) for x in objects]


def test_nothing_is_kept(tensors):
    q, k, v = tensors()
    bias = np.zeros((4, 128), np.float32)
    text = "pattern p { input bias: f32[heads, 128]; keep causal; score s + bias[h, q - k]; }"
    lent = Lent(q)

    def all_there_is():
        weft.attention(q, k, v, text, inputs={"bias": bias}, return_lse=True)
        out, pullback = weft.vjp(q, k, v, text, inputs={"bias": bias})
        pullback(out)
        weft.attention(lent, lent, lent, "dense")
        for bad in (lambda: weft.attention(q, k[:, :, :3], v), lambda: weft.attention(q, k, [1]), lambda: pullback(q[:, 1:])):
            with pytest.raises((ValueError, TypeError)):
                bad()
        lent.asked.clear()

    all_there_is()
    gc.collect()
    before = references(q, k, v, bias, lent)
    for _ in range(3):
        all_there_is()
    gc.collect()
    assert references(q, k, v, bias, lent) == before


def test_memory_does_not_grow(tensors):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    q, k, v = (Lent(x) for x in tensors(batch=1, n_q=512, heads=8, dim=64))  # 1 MB a result, of Weft's own memory
    kernel = weft.compile("window", width=8, dim=64, dtype="f32")
    for _ in range(5):
        kernel(q, k, v)
    before = resident()
    for _ in range(100):
        kernel(q, k, v)
    assert resident() - before < 30e6


def test_other_threads_run_meanwhile(tensors):
    q, k, v = tensors(batch=1, n_q=4000, heads=8, dim=64)
    kernel = weft.compile("dense", dim=64, dtype="f32")
    kernel(q[:, :64], k[:, :64], v[:, :64])
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    kernel(q, k, v, threads=1)
    ended = time.perf_counter()
    done.set()
    thread.join()
    assert sum(started < at < ended for at in ticks) > 3, f"{ended - started:.3f} s without the interpreter"


def test_threads_share_a_kernel(tensors):
    q, k, v = tensors()
    want = weft.attention(q, k, v, "causal")
    results = [None] * 8

    def work(place):
        results[place] = weft.attention(q, k, v, "causal")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        np.testing.assert_array_equal(found, want)


def test_children_go_on():
    program = """
import os, numpy as np, weft
x = np.ones((1, 64, 4, 8), np.float32)
want = weft.attention(x, x, x, "causal")
child = os.fork()
if child == 0:
    same = (weft.attention(x, x, x, "causal") == want).all()
    new = weft.attention(x, x, x, "window", width=3).shape == x.shape
    os._exit(0 if same and new else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-X", "dev", "-W", "ignore:This process:DeprecationWarning", "-c", program], check=True, timeout=120)


def test_the_end_is_silent():
    """No instance is left behind when the interpreter ends, and nothing is said."""
    program = "import numpy as np, weft; x = np.ones((1, 6, 2, 8), np.float32); weft.vjp(x, x, x, 'causal')[1](x)"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr == ""
