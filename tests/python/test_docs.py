"""The snippets of the pages that users learn from: they run, and print what stands behind them."""

import contextlib
import importlib.util
import io
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]


def snippets(page):
    """Code, and what it shall print or None."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    for number, (language, text) in enumerate(blocks):
        if language == "python":
            follows = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            yield text, follows[1] if follows[0] == "text" else None


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_snippets(page):
    rng = np.random.default_rng(1)
    names = {name: rng.standard_normal((1, 300, 4, 64), dtype=np.float32) for name in ("q", "k", "v", "d_out")}
    found = list(snippets(page))
    assert found, "no snippet"
    for code, printed in found:
        if any(f"import {name}" in code and not importlib.util.find_spec(name) for name in ("torch", "jax")):
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, page, "exec"), names)
        assert printed is None or out.getvalue() == printed
