"""What a kernel will do at given sizes, and why; and what Weft finds on the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _weft
from ._sources import PatternSource, add_places, source_of
from ._words import bound, spell_params
from .errors import ArgumentError, PatternError

if TYPE_CHECKING:
    from ._kernels import Engine

__all__ = ["Explanation", "doctor", "explain"]


class Explanation(Mapping[str, Any]):
    """`str` are lines for people; items are the keys that `weft explain --json` prints, in its order."""

    def __init__(self, made: _weft.Explanation) -> None:
        import json

        self._text = made.text
        self._said: dict[str, Any] = json.loads(made.json)

    def __getitem__(self, name: str) -> Any:
        return self._said[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._said)

    def __len__(self) -> int:
        return len(self._said)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<weft.Explanation: {self._text.partition(chr(10))[0]}>"


RingSaid = int | tuple[int, str] | tuple[int, str, str]
"""Ranks; with a layout; and with what travels."""


def explained(engine: Engine, request: Mapping[str, Any], *, batch: int, tokens: int | None, keys: int | None, layout: str,
              ring: RingSaid | None, ring_memory: int, inputs: Mapping[str, Any] | None) -> Explanation:  # fmt: skip
    for name, value in (("batch", batch), ("tokens", tokens), ("keys", keys)):
        if value is not None and value < 1:
            raise ArgumentError(f"{name} is {value}; expected 1 or more")
    if layout not in ("bnhd", "bhnd"):
        raise ArgumentError(f"layout is '{layout}'; expected 'bnhd' or 'bhnd'")
    ranks = ring if isinstance(ring, int) else ring[0] if ring else 0
    owners = ring[1] if isinstance(ring, tuple) else ""
    carrier = ring[2] if isinstance(ring, tuple) and len(ring) > 2 else ""
    if ring is not None and ranks < 1:
        raise ArgumentError(f"ring is {ranks}; expected 1 rank or more")
    if ring_memory < 0:
        raise ArgumentError(f"ring_memory is {ring_memory}; expected bytes, or 0")
    made = _weft.explain(engine, _weft.Request(**request), batch, tokens or 0, keys or 0, layout == "bhnd", ranks, owners, carrier,
                         ring_memory, inputs)  # fmt: skip
    for warning in engine.take_warnings():
        import logging

        logging.getLogger("weft").warning("%s", warning)
    return Explanation(made)


def explain(source: PatternSource, *, tokens: int | None = None, keys: int | None = None, batch: int = 1, heads: int | None = None,
            kv_heads: int | None = None, dim: int | None = None, dim_v: int | None = None, dtype: Any = None,
            target: str | None = None, gradient: bool = False, layout: str = "bnhd", ring: RingSaid | None = None,
            ring_memory: int = 0, inputs: Mapping[str, Any] | None = None, pattern: str | None = None, engine: Engine | None = None,
            **params: Any) -> Explanation:  # fmt: skip
    """What a kernel of this pattern will do, without running it: how many pairs are kept and computed, how the plan cuts
    the work, how long it should take, and why. `source`, `pattern` and `params` as in `weft.compile`.

    What is left open is 4,096 tokens (or what the pattern demands), as many keys, 8 heads, dim 64 and f32. `target`: any
    that can be compiled for, such as `"sm_61"`, whose machine code is looked at where a compiler and nvdisasm are found;
    no GPU is needed. `gradient=True` is about the backward pass. `ring`: a number of ranks, or `(ranks, "zigzag")`, or `(ranks, "auto", "heads")`;
    `ring_memory`: bytes that each of them has for K, V and messages, where that is not as much as it takes.
    `inputs`: of patterns whose pairs depend on them; without, what depends on them is None.

    >>> said = explain("window", width=4, tokens=100, heads=1)
    >>> said["pairs"], said["n_k"]
    (394.0, 100)
    """
    from ._kernels import default_engine

    text = source_of(source, pattern)
    request = {**text.request(spell_params(params)), **bound(heads, kv_heads, dim, dim_v, dtype, target), "gradient": gradient}
    try:
        return explained(engine or default_engine(), request, batch=batch, tokens=tokens, keys=keys, layout=layout, ring=ring,
                         ring_memory=ring_memory, inputs=inputs)  # fmt: skip
    except PatternError as error:
        add_places(error, text)
        raise


def doctor() -> Explanation:
    """Compilers, drivers, GPUs and the store: what is there, and the command that mends what is not. `["items"]` has a
    mapping for each, of `name`, `usable`, `found`, `reason` and `mend`.

    >>> [item["name"] for item in doctor()["items"]][:3]
    ['cpu', 'llvm', 'store']
    """
    return Explanation(_weft.doctor())
