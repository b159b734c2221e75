"""What XLA calls kernels by, without Python: compiled where the machine has a C++ compiler, from the headers that come with
JAX, and kept beside the kernels."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jax

from .. import _weft

TARGET = "weft_attention"
_HERE = Path(__file__).parent


def _compiler() -> str | None:
    named = os.environ.get("CXX") or os.environ.get("WEFT_CXX")
    return shutil.which(named) if named else shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


def _folder() -> Path | None:
    """Beside the kernel store; None where that is nowhere, or not this user's."""
    base = os.environ.get("WEFT_CACHE_DIR")
    if not base:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "", ".cache")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, "weft")
    folder = Path(base) / "jax"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError:
        return None
    return folder if about.st_uid == os.getuid() and not about.st_mode & 0o022 else None


def _built(compiler: str, headers: str, library: Path) -> None:
    """Appears whole, or not at all."""
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        made = Path(work) / "made.so"
        command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{headers}", str(_HERE / "ffi.cpp"), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        os.replace(made, library)


def _library() -> ctypes.CDLL:
    headers = jax.ffi.include_dir()
    compiler = _compiler()
    if compiler is None:
        raise RuntimeError("no C++ compiler was found")
    digest = hashlib.sha256()
    for path in (_HERE / "ffi.cpp", _HERE / "call.h", *sorted(Path(headers).rglob("xla/ffi/api/*.h"))):
        digest.update(path.read_bytes())
    name = f"ffi-{digest.hexdigest()[:32]}.so"
    folder = _folder()
    if folder is None:
        with tempfile.TemporaryDirectory() as work:  # the library stays open without its name
            _built(compiler, headers, Path(work) / name)
            return ctypes.CDLL(str(Path(work) / name))
    if not (folder / name).exists():
        logging.getLogger("weft").info("compiling what XLA calls kernels by, once for this version of JAX")
        _built(compiler, headers, folder / name)
    return ctypes.CDLL(str(folder / name))


@functools.lru_cache(maxsize=None)
def why_not() -> str:
    """Makes and registers it. Empty: it is there; else the reason why calls go through Python."""
    if os.environ.get("WEFT_JAX") == "python":
        return "WEFT_JAX is python"
    try:
        library = _library()
        library.weft_jax_connect.argtypes = [ctypes.c_void_p]
        library.weft_jax_connect.restype = None
        library.weft_jax_connect(_weft.jax_function())
        for platform, function in (("cpu", library.weft_jax_on_host), ("CUDA", library.weft_jax_on_gpu)):
            jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(function), platform=platform)
    except (OSError, RuntimeError, AttributeError, subprocess.SubprocessError) as error:
        said: Any = getattr(error, "stderr", None) or error
        reason = str(said).strip()
        logging.getLogger("weft").warning("kernels inside of jit are called through Python: %s", reason[-500:])
        return reason
    return ""
