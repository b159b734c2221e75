"""What can go wrong, by who can mend it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Error", "PatternError", "ArgumentError", "UnavailableError", "InternalError", "PatternWarning", "Diagnostic"]


class Diagnostic(NamedTuple):
    """One thing wrong with a pattern's text."""

    code: str
    """`E0103`; `weft check --explain E0103` says more."""
    message: str
    begin: int
    """First byte of the text that is meant."""
    end: int
    """Byte behind the last."""
    line: int
    """Of `begin`, from 1."""
    column: int
    """Of `begin`, from 1, in code points."""


class Error(Exception):
    """Anything that Weft reports."""


class PatternError(Error, ValueError):
    """A pattern's text is wrong. `str` is the report, with the lines and carets; `diagnostics` has the findings."""

    def __init__(self, report: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(report)
        self.diagnostics = diagnostics


class ArgumentError(Error, ValueError):
    """Tensors or options do not fit the pattern, or each other. The message names the tensor, what was found and what
    was expected."""


class UnavailableError(Error, RuntimeError):
    """This machine lacks something, such as a compiler. The message has the command that mends it."""


class InternalError(Error, RuntimeError):
    """A defect of Weft."""


class PatternWarning(UserWarning):
    """What a pattern says is allowed and seldom meant."""


_ENVIRONMENT, _INTERNAL = 3, 4  # weft_error_kind


# The compiled module calls it.
def _from_core(  # pyright: ignore[reportUnusedFunction]
    kind: int, message: str, report: str, diagnostics: list[tuple[str, str, int, int, int, int]], about_pattern: bool
) -> Error:
    if kind == _ENVIRONMENT:
        return UnavailableError(_notes_joined(report) or message)
    if kind == _INTERNAL:
        return InternalError(report or message)
    if diagnostics:
        return PatternError("\n" + report.rstrip(), tuple(Diagnostic(*d) for d in diagnostics))
    return PatternError(message) if about_pattern else ArgumentError(message)


def _notes_joined(report: str) -> str:
    """A report without its first word, which the exception's name says."""
    return report.removeprefix("error: ").rstrip()
