"""What kernels will do, told without running them, and what is on the machine."""

import json
import logging
import os
import subprocess

import numpy as np
import pytest
import weft


def test_a_kernel_says_what_it_will_do():
    kernel = weft.compile("window", width=8, dim=32, dtype="f32")
    said = kernel.explain(tokens=200, heads=4, batch=2)
    assert said["pairs"] == 2 * 4 * (200 * 8 - 28)
    assert (said["n_q"], said["n_k"], said["heads"], said["dim"], said["batch"]) == (200, 200, 4, 32, 2)
    assert said["target"] == kernel.target and said["predicted"]["ms"] > 0
    assert f"window on {kernel.target}, 200 queries, 200 keys, 4 heads, dim 32, f32" in str(said)
    assert list(said)[:2] == ["pattern", "target"] and len(said) == len(dict(said))
    assert "window" in repr(said) and "\n" not in repr(said)


def test_of_gradients_and_rings():
    pattern = weft.pattern(keep=weft.causal)
    backward = weft.explain(pattern, tokens=256, gradient=True)
    assert backward["backward"]["products"] == 5 and str(backward).startswith("backward pass of python on cpu")
    ring = weft.explain(pattern, tokens=4096, ring=(4, "zigzag"))
    assert ring["ring"]["ranks"] == 4 and ring["ring"]["layout"] == "zigzag"
    assert weft.explain(pattern, tokens=4096, ring=4)["ring"]["layout"] != ""
    ring = weft.explain(pattern, tokens=4096, ring=(4, "zigzag"), gradient=True)["ring"]
    assert 0 < ring["rows_bytes"]["max"] < ring["needed_bytes"]["max"] and ring["imbalance"] < 1.01
    assert weft.explain(pattern, tokens=4096, ring=(4, "auto", "heads"))["ring"]["carrier"].startswith("heads")
    fits = weft.explain(pattern, tokens=4096, ring=(4, "contiguous", "keys"))["ring"]
    cut = weft.explain(pattern, tokens=4096, ring=(4, "contiguous", "keys"), ring_memory=2**22)
    assert fits["bits"] == "one device" and cut["ring"]["bits"] == "chunks of 256 keys"
    assert cut["ring"]["predicted_ms"] > fits["predicted_ms"] and "in 16 rounds of 256 keys" in str(cut)
    with pytest.raises(weft.ArgumentError, match="'cart' is no carrier"):
        weft.explain(pattern, tokens=4096, ring=(4, "auto", "cart"))


def test_inputs_decide_what_is_counted():
    ids = weft.input("ids", "i32", "batch", "tokens")
    pattern = weft.pattern(keep=weft.document(ids))
    assert weft.explain(pattern, tokens=8)["pairs"] is None
    said = weft.explain(pattern, tokens=8, heads=1, inputs={"ids": np.array([[0] * 5 + [1] * 3], np.int32)})
    assert said["pairs"] == 25 + 9


def test_for_a_card_that_is_not_there():
    said = weft.explain("longnet", target="sm_61", tokens=4096, heads=8, dim=64, dtype="f16", segments=[1024, 2048], rates=[1, 2])
    assert said["target"] == "sm_61" and said["predicted"]["from"] in ("sass", "model")


def test_what_is_missing_is_logged(caplog, tmp_path):
    engine = weft.Engine(cache_dir=str(tmp_path), nvrtc=str(tmp_path / "libnvrtc.so"))
    with caplog.at_level(logging.WARNING, "weft"):
        weft.explain("dense", target="sm_80", dtype="f16", tokens=64, engine=engine)
    assert "registers and spills are not known" in caplog.text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tokens": 0}, "tokens is 0; expected 1 or more"),
        ({"layout": "nbhd"}, "layout is 'nbhd'; expected 'bnhd' or 'bhnd'"),
        ({"ring": 0}, "ring is 0; expected 1 rank or more"),
        ({"ring": 2, "ring_memory": -1}, "ring_memory is -1; expected bytes, or 0"),
        ({"ring": 2, "ring_memory": 1}, "the smallest round of keys takes"),
        ({"ring": (2, "snail")}, "'snail' is not a layout"),
        ({"ring": 2, "ring_memory": 2**20, "gradient": True}, "gradients of a ring want all rows in memory"),
        ({"target": "interpreter"}, "the interpreter has no plan"),
        ({"inputs": {"ids": np.zeros(3, np.int32)}}, "has no input 'ids'"),
    ],
)
def test_what_cannot_be_explained_is_said(options, message):
    with pytest.raises(weft.ArgumentError, match=message.replace("(", r"\(")):
        weft.explain("causal", **options)


def test_a_kernel_has_its_heads():
    kernel = weft.compile("dense", heads=2, dim=16, dtype="f32")
    with pytest.raises(weft.ArgumentError, match="heads is 4; the kernel was compiled for 2"):
        kernel.explain(64, heads=4)
    assert kernel.explain(64)["heads"] == 2


def test_errors_show_the_text():
    with pytest.raises(weft.PatternError, match="windo") as caught:
        weft.explain("pattern p { keep windo(3); }")
    assert caught.value.diagnostics[0].line == 1


def test_doctor_names_what_is_there():
    said = weft.doctor()
    items = {item["name"]: item for item in said["items"]}
    assert items["cpu"]["usable"] and "llvm" in items and "store" in items
    assert all(item["usable"] or item["mend"] or item["reason"] for item in items.values())
    assert str(said).startswith("+ cpu ")


def test_as_the_command_says_it():
    """Where the command was built beside the package."""
    command = os.environ.get("WEFT_COMMAND", "build/weft")
    if not os.access(command, os.X_OK):
        pytest.skip("no command is built here")
    options = ["--tokens", "1k", "--heads", "4", "--dim", "32", "--json", "--quiet"]
    theirs = json.loads(subprocess.check_output([command, "explain", "examples/bigbird.weft", *options]))
    ours = weft.explain("examples/bigbird.weft", tokens=1024, heads=4, dim=32)
    for timed in ("plan_us", "predicted"):
        theirs.pop(timed)
    assert theirs == {name: value for name, value in ours.items() if name in theirs}
