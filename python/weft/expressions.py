"""Functions of Python, traced: called once with symbols, they leave an expression of the language. FlexAttention's
mask_mods and score_mods are such functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from ._sources import Place
from ._words import spell
from .errors import ArgumentError

__all__ = ["Expression", "Input", "alibi", "exp", "input", "log", "maximum", "minimum", "select", "sigmoid", "softcap",
           "sqrt", "tanh"]  # fmt: skip

# How tightly the language's operators bind.
_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _UNARY, _ATOM = range(1, 9)

_NO_ARRAY = "a traced index reads no array of another library: declare weft.input(name, dtype, *axes) and index that"

_DTYPES = {"f32": "real", "i32": "int", "u8": "int"}


class Input:
    """A tensor that is given at launch, under its name. Made by `weft.input`; indexed in traced functions."""

    def __init__(self, name: str, dtype: str, axes: tuple[int | str, ...]) -> None:
        if dtype not in _DTYPES:
            raise ArgumentError(f"the input '{name}' is {dtype}; expected f32, i32 or u8")
        self.name, self.dtype, self.axes = name, dtype, axes

    @property
    def text(self) -> str:
        """The declaration."""
        axes = ", ".join(axis if isinstance(axis, str) else spell(axis, "an axis") for axis in self.axes)
        return f"input {self.name}: {self.dtype}[{axes}];"

    def __getitem__(self, index: Any) -> Expression:
        indices = [_expression(item) for item in (index if isinstance(index, tuple) else (index,))]
        inputs = merged([(self,), *(item.inputs for item in indices)])
        return Expression(f"{self.name}[{', '.join(item.text for item in indices)}]", _ATOM, _DTYPES[self.dtype], inputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Input) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<weft.Input {self.text}>"


def input(name: str, dtype: str, *axes: int | str) -> Input:
    """Declares an input: `input("bias", "f32", "heads", 64)`. Axes are numbers or `batch`, `heads`, `queries`, `keys`,
    `tokens`, `blocks`. The tensor is given at the call: `inputs={"bias": …}`."""
    return Input(name, dtype, axes)


def merged(parts: Any) -> tuple[Input, ...]:
    """All inputs, each once. One name for two of them is an error."""
    found: dict[str, Input] = {}
    for part in parts:
        for one in part:
            other = found.setdefault(one.name, one)
            if other != one:
                raise ArgumentError(f"two inputs are called '{one.name}': {other.text} and {one.text}")
    return tuple(found.values())


def _refuse_truth() -> NoReturn:
    raise TypeError(
        "a traced condition is true or false for each pair, not once: write `&`, `|`, `~` for `and`, `or`, `not` "
        "(with parentheses around comparisons), `(a <= b) & (b < c)` for `a <= b < c` and weft.select(c, x, y) for `if`"
    )


class Expression:
    """A number or a condition for each pair; `text` is how the language says it."""

    __slots__ = ("text", "binds", "kind", "inputs")

    def __init__(self, text: str, binds: int = _ATOM, kind: str = "int", inputs: tuple[Input, ...] = ()) -> None:
        self.text, self.binds, self.kind, self.inputs = text, binds, kind, inputs

    def __repr__(self) -> str:
        return f"<weft.Expression {self.text}>"

    def __bool__(self) -> bool:
        _refuse_truth()

    def __index__(self) -> int:
        raise TypeError(_NO_ARRAY)

    def __add__(self, other: Any) -> Expression:
        return _binary("+", _ADD, self, other)

    def __radd__(self, other: Any) -> Expression:
        return _binary("+", _ADD, other, self)

    def __sub__(self, other: Any) -> Expression:
        return _binary("-", _ADD, self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _binary("-", _ADD, other, self)

    def __mul__(self, other: Any) -> Expression:
        return _binary("*", _MULTIPLY, self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _binary("*", _MULTIPLY, other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _divide(other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return _floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _floor_divide(other, self)

    def __mod__(self, other: Any) -> Expression:
        return _binary("%", _MULTIPLY, self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _binary("%", _MULTIPLY, other, self)

    def __pow__(self, power: Any) -> Expression:
        if power == 0.5:
            return sqrt(self)
        if not isinstance(power, int) or not 1 <= power <= 8:
            raise TypeError(f"the power {power!r} of a traced expression; expected an int from 1 to 8 or 0.5")
        out = self
        for _ in range(power - 1):
            out = out * self
        return out

    def __neg__(self) -> Expression:
        return Expression(f"-{self.inside(_UNARY)}", _UNARY, self.kind, self.inputs)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return _call("abs", self.kind, self)

    def __lt__(self, other: Any) -> Expression:
        return _compare("<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _compare("<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _compare(">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _compare(">=", self, other)

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return _compare("!=", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Expression:
        return _logical("and", _AND, self, other)

    def __rand__(self, other: Any) -> Expression:
        return _logical("and", _AND, other, self)

    def __or__(self, other: Any) -> Expression:
        return _logical("or", _OR, self, other)

    def __ror__(self, other: Any) -> Expression:
        return _logical("or", _OR, other, self)

    def __invert__(self) -> Expression:
        return Expression(f"not {_condition(self, '~').inside(_ATOM)}", _NOT, "bool", self.inputs)

    def inside(self, binds: int) -> str:
        """The text as an operand of what binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """`torch.where`, `torch.tanh` and their like, called with a symbol."""
        return _foreign(getattr(function, "__name__", ""), args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return _foreign(ufunc.__name__, args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _foreign(function.__name__, args, kwargs)


def _expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool):
        return Expression(spell(value), _ATOM, "bool")
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()  # a number of NumPy or PyTorch
    if not isinstance(value, (int, float)):
        raise TypeError(f"a {type(value).__name__} in a traced expression; expected a number, a symbol or an element of a weft.input")
    negative = value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0)
    return Expression(spell(value), _UNARY if negative else _ATOM, "int" if isinstance(value, int) else "real")


def _kind(*operands: Expression) -> str:
    return "real" if any(one.kind == "real" for one in operands) else "int"


def _binary(word: str, binds: int, left: Any, right: Any) -> Expression:
    left, right = _expression(left), _expression(right)
    text = f"{left.inside(binds)} {word} {right.inside(binds + 1)}"
    return Expression(text, binds, _kind(left, right), merged((left.inputs, right.inputs)))


def _divide(left: Any, right: Any) -> Expression:
    """`/` of Python is never that of integers, the language's floors them."""
    left, right = _expression(left), _expression(right)
    return _binary("/", _MULTIPLY, left if _kind(left, right) == "real" else 1.0 * left, right)


def _floor_divide(left: Any, right: Any) -> Expression:
    quotient = _binary("/", _MULTIPLY, left, right)
    return quotient if quotient.kind == "int" else _call("floor", "int", quotient)


def _compare(word: str, left: Any, right: Any) -> Expression:
    made = _binary(word, _ADD, left, right)
    return Expression(made.text, _COMPARE, "bool", made.inputs)


def _condition(value: Any, word: str) -> Expression:
    made = _expression(value)
    if made.kind != "bool":
        raise TypeError(f"`{word}` of {made.text}, which is a number; expected a condition (comparisons next to `{word}` need parentheses)")
    return made


def _logical(word: str, binds: int, left: Any, right: Any) -> Expression:
    sign = "&" if word == "and" else "|"
    left, right = _condition(left, sign), _condition(right, sign)
    text = f"{left.inside(binds)} {word} {right.inside(binds + 1)}"
    return Expression(text, binds, "bool", merged((left.inputs, right.inputs)))


def _call(word: str, kind: str, *arguments: Any) -> Expression:
    made = [_expression(argument) for argument in arguments]
    return Expression(f"{word}({', '.join(one.text for one in made)})", _ATOM, kind, merged(one.inputs for one in made))


def select(condition: Any, then: Any, otherwise: Any) -> Expression:
    """`then` where the condition holds, else `otherwise`."""
    left, right = _expression(then), _expression(otherwise)
    return _call("select", _kind(left, right), _condition(condition, "select"), left, right)


def softcap(x: Any, cap: Any) -> Expression:
    """`cap * tanh(x / cap)`"""
    return _call("softcap", "real", x, cap)


def alibi(h: Any) -> Expression:
    """The slope of ALiBi for a head."""
    return _call("alibi", "real", h)


def exp(x: Any) -> Expression:
    """e to the x"""
    return _call("exp", "real", x)


def log(x: Any) -> Expression:
    """The natural logarithm."""
    return _call("log", "real", x)


def sqrt(x: Any) -> Expression:
    """The square root."""
    return _call("sqrt", "real", x)


def tanh(x: Any) -> Expression:
    """The hyperbolic tangent."""
    return _call("tanh", "real", x)


def sigmoid(x: Any) -> Expression:
    """`1 / (1 + exp(-x))`"""
    return _call("sigmoid", "real", x)


def minimum(x: Any, y: Any) -> Expression:
    """The smaller of two."""
    return _call("min", _kind(_expression(x), _expression(y)), x, y)


def maximum(x: Any, y: Any) -> Expression:
    """The larger of two."""
    return _call("max", _kind(_expression(x), _expression(y)), x, y)


_FOREIGN: dict[str, Callable[..., Any]] = {
    "where": select, "exp": exp, "log": log, "sqrt": sqrt, "tanh": tanh, "sigmoid": sigmoid, "minimum": minimum,
    "maximum": maximum, "abs": abs, "absolute": abs,
    "logical_and": lambda a, b: _logical("and", _AND, a, b), "logical_or": lambda a, b: _logical("or", _OR, a, b),
    "bitwise_and": lambda a, b: _logical("and", _AND, a, b), "bitwise_or": lambda a, b: _logical("or", _OR, a, b),
    "logical_not": lambda a: ~_expression(a), "bitwise_not": lambda a: ~_expression(a), "invert": lambda a: ~_expression(a),
    "add": lambda a, b: _binary("+", _ADD, a, b), "subtract": lambda a, b: _binary("-", _ADD, a, b),
    "sub": lambda a, b: _binary("-", _ADD, a, b), "rsub": lambda a, b: _binary("-", _ADD, b, a),
    "mul": lambda a, b: _binary("*", _MULTIPLY, a, b), "multiply": lambda a, b: _binary("*", _MULTIPLY, a, b),
    "divide": _divide, "div": _divide, "true_divide": _divide, "floor_divide": _floor_divide,
    "remainder": lambda a, b: _binary("%", _MULTIPLY, a, b),
    "greater": lambda a, b: _compare(">", a, b), "greater_equal": lambda a, b: _compare(">=", a, b),
    "less": lambda a, b: _compare("<", a, b), "less_equal": lambda a, b: _compare("<=", a, b),
    "equal": lambda a, b: _compare("==", a, b), "not_equal": lambda a, b: _compare("!=", a, b),
}  # fmt: skip


def _foreign(name: str, args: Any, kwargs: Any) -> Expression:
    function = _FOREIGN.get(name)
    if function is None or kwargs:
        raise TypeError(f"'{name}' cannot be traced; there are weft.select, softcap, alibi, exp, log, sqrt, tanh, sigmoid, minimum, maximum")
    return function(*args)


# What a traced function may ask for by the names of its arguments; FlexAttention's are the latter.
_SYMBOLS = {
    "b": ("b", "int"), "h": ("h", "int"), "q": ("q", "int"), "k": ("k", "int"), "n_q": ("n_q", "int"),
    "n_k": ("n_k", "int"), "H": ("H", "int"), "s": ("s", "real"), "score": ("s", "real"),
    "q_idx": ("q", "int"), "kv_idx": ("k", "int"), "batch": ("b", "int"), "head": ("h", "int"),
}  # fmt: skip


def trace(function: Callable[..., Any], scores: bool) -> tuple[Expression, Place]:
    """What the function computes of a pair; of its score, too, where it rewrites scores."""
    if not callable(function):
        raise TypeError(f"a {type(function).__name__} where a function of (b, h, q, k) is expected")
    import inspect

    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        symbol = _SYMBOLS.get(name)
        if symbol is None or (symbol[0] == "s" and not scores):
            if parameter.default is not inspect.Parameter.empty:
                continue
            known = "b, h, q, k, n_q, n_k, H" + (", s" if scores else "")
            raise TypeError(f"a traced function has the argument '{name}'; expected some of {known}, or FlexAttention's names")
        arguments[name] = Expression(symbol[0], _ATOM, symbol[1])
    positional = [
        arguments.pop(name)
        for name, parameter in inspect.signature(function).parameters.items()
        if name in arguments and parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    try:
        made = _expression(function(*positional, **arguments))
    except IndexError as error:  # NumPy's, of an index that is no number
        raise TypeError(_NO_ARRAY) from error
    if scores and made.kind == "bool":
        raise TypeError(f"a score is a number; the function returned the condition {made.text}: that is for where()")
    if not scores and made.kind != "bool":
        raise TypeError(f"where() wants a condition; the function returned the number {made.text}")
    code = getattr(function, "__code__", None)
    place = f"{code.co_filename}, line {code.co_firstlineno}" if code else repr(function)
    return made, Place(made.text, f"{getattr(function, '__name__', 'the function')} in {place}")
