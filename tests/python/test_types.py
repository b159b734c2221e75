"""Type hints: of the package, and as its users see them."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USE = """
from typing import Any
import weft
from weft import Explanation, Kernel, Pattern, Set

def near(q: Any, k: Any) -> Any:
    return abs(q - k) < 64

some: Set = weft.window(63, 0) | weft.sink(4) | ~weft.where(near)
mine: Pattern = weft.pattern(some, keep=weft.causal, combine="union")
kernel: Kernel = weft.compile(mine, dim=64, dtype="f32", target="cpu")
said: Explanation = kernel.explain(tokens=1024, heads=8, ring=(4, "zigzag"))
pairs: float = said["pairs"]
picture: str = str(mine.draw(64))
mended: list[str] = [item["mend"] for item in weft.doctor()["items"]]
"""

WRONG = "import weft\nweft.window('four')\nweft.compile(3)\nweft.explain('dense', token=4)\n"


def checked(arguments, folder):
    """What pyright finds: a list of its diagnostics."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if not done.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not run here: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)["generalDiagnostics"]


def errors_of(arguments, folder):
    return [f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
            for one in checked(arguments, folder) if one["severity"] == "error"]  # fmt: skip


def strict(text, folder):
    (folder / "use.py").write_text("# pyright: strict\n" + text)
    return errors_of(["use.py"], folder)


def test_the_package_has_none_under_strict():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assert errors_of(["-p", str(ROOT)], ROOT) == []


def test_users_have_none_under_strict(tmp_path):
    assert strict(USE, tmp_path) == []


def test_what_is_wrong_is_seen(tmp_path):
    lines = {found.split(":")[1] for found in strict(WRONG, tmp_path)}
    assert lines >= {"3", "4"}
