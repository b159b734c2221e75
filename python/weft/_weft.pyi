"""The compiled module: what the package needs of weft/c.h."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

def version() -> str: ...
def leaks_are_known() -> None: ...
def library_text(number: int) -> str | None: ...

class View:
    def __init__(self, array: Any, name: str, stream: Any = None) -> None: ...
    @property
    def dtype(self) -> str: ...
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
    def __init__(self, engine: Engine, request: Request, shape: Sequence[int], /) -> None:
        """`shape` of the first launch: batch, n_q, n_k, heads, kv_heads; empty: not known."""

    @property
    def drops(self) -> bool: ...
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
    def prepare(self, batch: int, n_q: int, n_k: int, heads: int, kv_heads: int, sizes_at: bool, /) -> float: ...

def forward(
    kernel: Kernel,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: int,
    heads_first: bool,
    inputs: Mapping[str, Any] | None,
    offset: int | Sequence[int] | None,
    cu_q: Sequence[int] | None,
    cu_k: Sequence[int] | None,
    seed: Any,
    threads: int,
    stream: Any,
    /,
) -> tuple[Any, Any]:
    """O, which is `out` where that is given, and where it is wanted and there is one the LSE."""

def backward(
    kernel: Kernel,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    d_out: Any,
    d_lse: Any,
    wanted: Collection[str] | None,
    heads_first: bool,
    inputs: Mapping[str, Any] | None,
    offset: int | Sequence[int] | None,
    cu_q: Sequence[int] | None,
    cu_k: Sequence[int] | None,
    seed: Any,
    threads: int,
    stream: Any,
    /,
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Of a kernel compiled with `gradient`: gradients of q, k, v and by name of inputs."""

class Transport:
    def __init__(self, messenger: Any, /) -> None: ...
    def with_nccl(self, device: int, timeout_ms: int, /) -> Transport: ...

def local_transports(ranks: int, /) -> list[Transport]: ...

class Ring:
    def __init__(self, transport: Transport, layout: int, carrier: int, timeout_ms: int, memory: int, /) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    def barrier(self) -> None: ...

class RingPlan:
    def __init__(self, ring: Ring, kernel: Kernel, shape: tuple[int, int, int, int], inputs: Mapping[str, Any] | None) -> None: ...
    def owned(self, rank: int, /) -> list[tuple[int, int, int]]: ...
    def layout(self) -> str: ...
    def bits(self) -> str: ...
    def carrier(self) -> str: ...
    def share(self) -> dict[str, float]: ...
    def run(self, arrays: dict[str, Any], inputs: Mapping[str, Any] | None, d_inputs: Mapping[str, Any] | None, seed: int,
            threads: int) -> None:  # fmt: skip
        """Arrays by the names of weft_ring_args; None where there is none."""
    def gather(self, rows: Any, axis: int, whole: Any) -> None: ...

def chosen(
    kernel: Kernel,
    q: Any,
    k: Any,
    v: Any,
    heads_first: bool,
    inputs: Mapping[str, Any] | None,
    offset: int | Sequence[int] | None,
    threads: int,
    stream: Any,
) -> list[tuple[str, int, int, Any]]: ...
def run_alone(kernel: Kernel, q: View, k: View, v: View, out: View, threads: int, /) -> None:
    """A launch without what a call does around it, for measurements."""

def records_gradients(q: Any, k: Any, v: Any, inputs: Mapping[str, Any] | None, /) -> bool: ...
def way_of_launch(q: Any, k: Any, v: Any, inputs: Mapping[str, Any] | None, /) -> Literal["launch", "record", "xla"]:
    """`xla`: arrays of JAX on a GPU."""

class Kernels:
    """What calls asked for last, by what they said: pattern, scale, dropout, has_lengths, target, engine, params."""

    def __init__(self) -> None: ...
    def find(self, q: Any, v: Any, *said: Any) -> Any: ...
    def look(
        self, q: Any, k: Any, v: Any, inputs: Mapping[str, Any] | None, *said: Any
    ) -> tuple[Literal["launch", "record", "operator", "autocast", "xla"], Any]:
        """How a call of these arrays goes, and for the first two the kernel, if it is known; PyTorch's compiler was asked
        before."""
    def keep(self, q: View, v: View, *said: Any) -> None: ...

class Picture:
    def __init__(
        self, request: Request, n_q: int, n_k: int, head: int, cells: int, inputs: Mapping[str, Any] | None = None
    ) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def svg(self) -> str: ...
    @property
    def n_q(self) -> int: ...
    @property
    def n_k(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def colors(self) -> bytes:
        """Red, green and blue of each cell, row by row."""

class Explanation:
    @property
    def text(self) -> str: ...
    @property
    def json(self) -> str: ...

def explain(
    engine: Engine,
    request: Request,
    batch: int,
    n_q: int,
    n_k: int,
    heads_first: bool,
    ranks: int,
    layout: str,
    carrier: str,
    ring_memory: int,
    inputs: Mapping[str, Any] | None = None,
) -> Explanation:
    """Zeros: not said."""

def doctor() -> Explanation: ...
def jax_keep(name: str, kernel: Kernel, /) -> None:
    """Programs that XLA compiled know the kernel by this name; the caller holds it."""

def jax_function() -> int:
    """The address of what they call: a `jax::Function` of `_jax/call.h`."""
