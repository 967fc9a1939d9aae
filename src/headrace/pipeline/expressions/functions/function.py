"""Functions: their signatures, how a call selects one, and the two forms of that signature.

`Function.resolve` chooses like ksqlDB: a signature with exactly the arguments' types; otherwise one that
takes them after implicit casts (INTEGER → BIGINT → DECIMAL → DOUBLE, and VARCHAR to dates, times and BYTES;
none for aggregates). Signatures that are not variadic, have more parameters, or have fewer open types come
first. If two remain, the call is ambiguous and is rejected.

The Spark SQL never fails on data: it gives null where ksqlDB logs an error. The text of an argument is an
expression, for a lambda `` `X` -> body`` or `` (`K`, `V`) -> body``, for a unit its word, and for a bare NULL
anything. The Spark SQL of a table function is an array with an element for each row. Aggregates may use the
column `` `__ORDER` ``, which orders the rows.

The Python form, which pull queries and INSERT VALUES use, is a function of the arguments' values
(`values.py`). It gets positional arguments of the parameters' types: variadic arguments one by one, a lambda
as a callable, a unit as its word. A null argument gives null without a call, unless the signature has
`nulls=True`. A call that raises ValueError, ArithmeticError, LookupError or ValueProblemError gives null. A
returned Decimal is rounded half up to the scale of the result. Decimal arithmetic is exact to 100 digits. The
Python form of a table function returns a list. Aggregates have no Python form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from enum import Enum
from typing import Any

from headrace.pipeline.expressions.casts import cast
from headrace.pipeline.expressions.functions.spark_text import (
    filled,
    integer_value,
    spark_type,
    string_value,
)
from headrace.pipeline.expressions.functions.type_patterns import (
    UNIT,
    Argument,
    Bound,
    LambdaOf,
    LambdaResult,
    LambdaShape,
    Pattern,
    PatternReader,
    Special,
    Unit,
    concrete,
    matches,
    open_places,
    shown,
)
from headrace.pipeline.expressions.value_casts import EXACT, FAILURES, converter, fitting
from headrace.pipeline.statements.types import DataType, DecimalType, StructType

__all__ = [
    "UNIT",
    "Argument",
    "ByCall",
    "Call",
    "Function",
    "FunctionKind",
    "LambdaResult",
    "LambdaShape",
    "Parameter",
    "Resolution",
    "Signature",
    "by_call",
    "signature",
]


class FunctionKind(Enum):
    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Pattern
    is_variadic: bool = False

    @property
    def type_text(self) -> str:
        return shown(self.type)

    def __str__(self) -> str:
        return f"{self.name} {self.type_text}{'...' if self.is_variadic else ''}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its signature: types and texts by parameter; variadic ones are `name_0`, `name_1`, …"""

    types: Mapping[str, DataType | None]
    texts: Mapping[str, str]
    result: DataType

    def type(self, name: str) -> DataType:
        found = self.types[name]
        assert found is not None, name
        return found

    def all_of(self, name: str) -> list[str]:
        """The template's placeholders for variadic arguments."""
        return [f"{{{each}}}" for each in self.texts if each.startswith(f"{name}_")]

    def string(self, name: str) -> str | None:
        """The argument's value if it is a constant."""
        return string_value(self.texts[name])

    def integer(self, name: str) -> int | None:
        return integer_value(self.texts[name])


# A template, or a function that makes it for a call.
Spark = str | Callable[[Call], str]
# A function of the arguments' values.
Python = Callable[..., Any]
Result = Callable[[Sequence[Argument]], DataType | None]
Condition = Callable[[Mapping[str, DataType]], bool]


@dataclass(frozen=True, slots=True)
class ByCall:
    """A Python form that depends on the types of the call."""

    make: Callable[[Call], Python]


def by_call(make: Callable[[Call], Python]) -> ByCall:
    return ByCall(make)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature of a function. `str` gives it as DESCRIBE FUNCTION shows it, without the name."""

    parameters: tuple[Parameter, ...]
    returns: Pattern
    spark: Spark
    python: Python | ByCall | None = None
    # Whether the Python form is called with nulls.
    nulls: bool = False
    # For results that the pattern does not determine, such as decimals.
    result: Result | None = None
    condition: Condition | None = None

    @property
    def return_text(self) -> str:
        return shown(self.returns)

    @property
    def is_variadic(self) -> bool:
        return any(each.is_variadic for each in self.parameters)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.return_text}"

    def expanded(self, count: int) -> tuple[Parameter, ...] | None:
        """One parameter for each of that many arguments."""
        if not self.is_variadic:
            return self.parameters if len(self.parameters) == count else None
        if count < len(self.parameters) - 1:
            return None
        found: list[Parameter] = []
        for each in self.parameters:
            if each.is_variadic:
                copies = count - len(self.parameters) + 1
                found.extend(Parameter(f"{each.name}_{index}", each.type) for index in range(copies))
            else:
                found.append(each)
        return tuple(found)

    def bound(self, arguments: Sequence[Argument], *, casts: bool) -> Bound | None:
        """The types bound to the open places, or None if the arguments do not fit."""
        parameters = self.expanded(len(arguments))
        if parameters is None:
            return None
        bound: Bound = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if not matches(parameter.type, argument, bound, casts=casts):
                return None
        return bound if self.condition is None or self.condition(bound) else None

    @property
    def rank(self) -> tuple[int, int, int]:
        open_parameters = sum(
            1 for each in self.parameters if each.type is Special.ANY or any(open_places(each.type))
        )
        return (0 if self.is_variadic else 1, len(self.parameters), -open_parameters)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A resolved call: its type, its Spark SQL from that of its arguments, its value from their values."""

    type: DataType
    spark: Callable[[tuple[str, ...]], str]
    python: Python


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    name: str
    kind: FunctionKind
    description: str
    signatures: tuple[Signature, ...]

    def resolve(self, arguments: tuple[Argument, ...]) -> Resolution | None:
        chosen = self._chosen(arguments)
        if chosen is None:
            return None
        form, bound = chosen
        result = concrete(form.returns, bound) if form.result is None else form.result(arguments)
        parameters = form.expanded(len(arguments))
        if result is None or parameters is None:
            return None
        types = tuple(
            concrete(parameter.type, bound, argument)
            for parameter, argument in zip(parameters, arguments, strict=True)
        )

        def call(texts: tuple[str, ...]) -> Call:
            cast_texts = {
                parameter.name: _cast(text, argument, wanted)
                for parameter, text, argument, wanted in zip(parameters, texts, arguments, types, strict=True)
            }
            return Call(types=dict(zip(cast_texts, types, strict=True)), texts=cast_texts, result=result)

        def spark(texts: tuple[str, ...]) -> str:
            made = call(texts)
            template = form.spark if isinstance(form.spark, str) else form.spark(made)
            return filled(template, made.texts, binds=self.kind is not FunctionKind.AGGREGATE)

        # The Python form depends on values and types, not on texts.
        python = _guarded(f"{self.name}{form}", form, arguments, call(("",) * len(arguments)))
        return Resolution(result, spark, python)

    def lambda_parameters(self, index: int, arguments: tuple[Argument, ...]) -> tuple[DataType, ...] | None:
        """The parameter types of the lambda at that index, from the other arguments."""
        chosen = self._chosen(arguments)
        if chosen is None:
            return None
        form, bound = chosen
        pattern = form.parameters[index].type
        if not isinstance(pattern, LambdaOf):
            return None
        found = tuple(concrete(each, bound) for each in pattern.parameters)
        known = tuple(each for each in found if each is not None)
        return known if len(known) == len(found) else None

    def _chosen(self, arguments: tuple[Argument, ...]) -> tuple[Signature, Bound] | None:
        for casts in (False, True) if self.kind is not FunctionKind.AGGREGATE else (False,):
            fitting = sorted(
                (
                    (form, bound)
                    for form in self.signatures
                    if (bound := form.bound(arguments, casts=casts)) is not None
                ),
                key=lambda pair: pair[0].rank,
                reverse=True,
            )
            if len(fitting) > 1 and fitting[0][0].rank == fitting[1][0].rank:
                return None
            if fitting:
                return fitting[0]
        return None


def signature(
    text: str,
    spark: Spark,
    python: Python | ByCall | None = None,
    *,
    nulls: bool = False,
    result: Result | None = None,
    condition: Condition | None = None,
) -> Signature:
    """`ARRAY<T> array, T... others -> BOOLEAN`, its Spark SQL and its Python form."""
    reader = PatternReader(text)
    parameters: list[Parameter] = []
    while not reader.take_if("->"):
        pattern = reader.pattern()
        is_variadic = reader.take_if("...")
        parameters.append(Parameter(reader.take(), pattern, is_variadic))
        reader.take_if(",")
    returns = reader.pattern()
    assert reader.at_end(), text
    return Signature(
        parameters=tuple(parameters),
        returns=returns,
        spark=spark,
        python=python,
        nulls=nulls,
        result=result,
        condition=condition,
    )


def _guarded(name: str, form: Signature, arguments: tuple[Argument, ...], call: Call) -> Python:
    """The Python form with implicit casts; null for null arguments and for failures."""
    python = form.python.make(call) if isinstance(form.python, ByCall) else form.python
    casts = [_converter(given, wanted) for given, wanted in zip(arguments, call.types.values(), strict=True)]
    result = call.result

    def called(*values: Any) -> Any:
        if python is None:
            raise NotImplementedError(f"{name} has no Python form")
        given = [
            value if convert is None else convert(value) for convert, value in zip(casts, values, strict=True)
        ]
        if not form.nulls and None in given:
            return None
        try:
            with localcontext(EXACT):
                found = python(*given)
            is_decimal = isinstance(result, DecimalType) and isinstance(found, Decimal)
            return fitting(found, result) if is_decimal else found
        except FAILURES:
            return None

    return called


def _converter(argument: Argument, wanted: DataType | None) -> Python | None:
    if argument is None:
        return lambda _value: None
    if wanted is None or isinstance(argument, Unit | LambdaShape | LambdaResult | StructType):
        return None
    return None if argument == wanted else converter(argument, wanted)


def _cast(text: str, argument: Argument, wanted: DataType | None) -> str:
    """The argument, converted to the parameter's type."""
    if argument is None:
        return "NULL" if wanted is None else f"CAST(NULL AS {spark_type(wanted)})"
    if wanted is None or argument == wanted or isinstance(wanted, StructType):
        return text
    assert not isinstance(argument, Unit | LambdaShape | LambdaResult)
    made = cast(text, argument, wanted)
    assert made is not None, f"{argument} does not become {wanted}"
    return made
