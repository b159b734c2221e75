"""The compiled module: what the package needs of weft/c.h."""

from typing import Any

def version() -> str: ...
def leaks_are_known() -> None: ...
def library_text(number: int) -> str | None: ...

class View:
    dtype: str
    def __init__(self, array: Any, name: str, stream: int | None = None) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def address(self) -> int: ...

class Array:
    """A result for arrays of a library that Weft cannot ask for memory: `numpy.from_dlpack` and its like take it."""

    def __init__(self, shape: list[int], dtype: str) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: bool | None = None
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Request:
    def __init__(
        self,
        text: str,
        *,
        pattern: str = "",
        params: list[str] = ...,
        source_name: str = "",
        heads: int = 0,
        kv_heads: int = 0,
        dim: int = 0,
        dim_v: int = 0,
        dtype: str = "",
        target: str = "",
        branch_lse: bool = False,
        gradient: bool = False,
    ) -> None: ...

class Pattern:
    def __init__(self, request: Request) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def lse(self) -> str: ...
    @property
    def branches(self) -> int: ...
    @property
    def inputs(self) -> list[tuple[str, str, int]]: ...
    @property
    def warnings(self) -> list[tuple[str, str, int, int, int, int]]: ...
    @property
    def warnings_report(self) -> str: ...

class Engine:
    def __init__(
        self,
        *,
        cache_dir: str | None = None,
        no_cache: bool = False,
        no_compile: bool = False,
        llvm: str | None = None,
        nvrtc: str | None = None,
        bundles: list[str] = ...,
        bundle_key: str | None = None,
        record: str | None = None,
        threads: int = 0,
        deadline_ms: int = 0,
        memory_bytes: int = 0,
        cache_bytes: int = 0,
        read_only_caches: list[str] = ...,
        wait_ms: int = 0,
        most_kernels: int = 0,
    ) -> None: ...
    def take_warnings(self) -> list[str]: ...
    def cache_stats(self) -> dict[str, int]: ...

class Kernel:
    def __init__(self, engine: Engine, request: Request) -> None: ...
    @property
    def origin(self) -> str: ...
    @property
    def compile_ms(self) -> float: ...
    @property
    def load_ms(self) -> float: ...
    @property
    def target(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def plan(self) -> str: ...
    @property
    def source(self) -> str: ...
    def workspace(self, batch: int, n_q: int, n_k: int, heads: int, kv_heads: int, threads: int, /) -> int: ...

def run(
    kernel: Kernel,
    q: View,
    k: View,
    v: View,
    out: View | None = None,
    lse: View | None = None,
    branch_lse: View | None = None,
    heads_first: bool = False,
    inputs: dict[str, View] = ...,
    offset: list[int] = ...,
    cu_q: list[int] = ...,
    cu_k: list[int] = ...,
    dropout_seed: int = 0,
    threads: int = 0,
    stream: int = 0,
    d_out: View | None = None,
    d_lse: View | None = None,
    dq: View | None = None,
    dk: View | None = None,
    dv: View | None = None,
    d_inputs: dict[str, View] = ...,
) -> None: ...
