"""Many calls in few jobs: with constants as arguments, and with columns whose rows hold them.

A call with columns depends on types only: examples that have those in common are the rows of one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from headrace.pipeline.expressions.functions.function import Argument, FunctionKind
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.statements.types import DATE, TIMESTAMP, ArrayType, DataType

from .values import Example, Value

_AT_ONCE = 60


@dataclass(frozen=True)
class Failure:
    reason: str


@dataclass(frozen=True)
class Found:
    """Spark's name of the type, and the values of all rows."""

    type: str
    values: list[Any]


@dataclass
class Form:
    """A call with columns, and the rows of its arguments. Fixed ones are part of the call."""

    name: str
    arguments: tuple[Value, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(each.argument) for each in self.arguments)})"


def call(name: str, arguments: Sequence[Argument], texts: Sequence[str]) -> tuple[str, DataType]:
    """Spark SQL and the type that it has; of a table function that of the array."""
    function = ALL[name]
    resolution = function.resolve(tuple(arguments))
    assert resolution is not None, f"{name}{arguments} is not taken"
    is_table = function.kind is FunctionKind.TABLE
    return resolution.spark(tuple(texts)), ArrayType(resolution.type) if is_table else resolution.type


def constant_call(example: Example) -> tuple[str, DataType]:
    arguments = example.arguments
    return call(example.name, [each.argument for each in arguments], [each.spark for each in arguments])


def looks_at_constants(example: Example) -> bool:
    """Whether constants give other Spark SQL than columns do."""
    types = [each.argument for each in example.arguments]
    names = [f"__c{place}__" for place, _ in enumerate(types)]
    texts = [
        each.spark if each.is_fixed else name for each, name in zip(example.arguments, names, strict=True)
    ]
    of_columns, _ = call(example.name, types, texts)
    for each, name in zip(example.arguments, names, strict=True):
        of_columns = of_columns.replace(name, each.spark)
    return of_columns != constant_call(example)[0]


def forms_of(examples: Iterable[Example]) -> dict[str, Form]:
    forms: dict[str, Form] = {}
    for example in examples:
        form = forms.setdefault(form_key(example), Form(example.name, example.arguments))
        form.rows.append(tuple(each.spark for each in example.arguments))
    return forms


def form_key(example: Example) -> str:
    parts = (each.spark if each.is_fixed else str(each.argument) for each in example.arguments)
    return f"{example.name}({', '.join(parts)})"


def evaluated(
    spark: SparkSession, calls: Sequence[tuple[str, DataType]], frame: DataFrame | None = None
) -> list[Found | Failure]:
    """Of calls with constants, and with the columns of the frame."""
    found: list[Found | Failure] = []
    for start in range(0, len(calls), _AT_ONCE):
        found.extend(_evaluated(frame or spark.range(1), calls[start : start + _AT_ONCE]))
    return found


def evaluated_forms(spark: SparkSession, forms: Sequence[Form]) -> list[Found | Failure]:
    found: list[Found | Failure] = []
    for start in range(0, len(forms), _AT_ONCE):
        some = forms[start : start + _AT_ONCE]
        columns: list[str] = []
        calls: list[tuple[str, DataType]] = []
        for number, form in enumerate(some):
            texts: list[str] = []
            for place, each in enumerate(form.arguments):
                name = f"a{number}_{place}"
                if each.is_fixed:
                    texts.append(each.spark)
                    continue
                values = ", ".join(row[place] for row in form.rows)
                kind = spark_type(each.argument)  # type: ignore[arg-type]
                columns.append(f"get(CAST(array({values}) AS ARRAY<{kind}>), CAST(id AS INT)) AS {name}")
                # What a function needs twice it has to bind: this is no mere column.
                texts.append(f"coalesce({name}, {name})")
            calls.append(call(form.name, [each.argument for each in form.arguments], texts))
        longest = max(len(form.rows) for form in some)
        # Computed before, so that nothing of it is folded into the calls.
        frame = spark.range(0, longest, 1, 1).selectExpr("id", *columns).localCheckpoint()
        found.extend(_evaluated(frame, calls))
    return found


def _evaluated(frame: DataFrame, calls: Sequence[tuple[str, DataType]]) -> list[Found | Failure]:
    try:
        return _at_once(frame, calls)
    except Exception as error:
        if len(calls) == 1:
            return [Failure(f"{str(error)[:600]}\n{calls[0][0]}")]
        # One of them: which, is worth more jobs.
        half = len(calls) // 2
        return [*_evaluated(frame, calls[:half]), *_evaluated(frame, calls[half:])]


def _at_once(frame: DataFrame, calls: Sequence[tuple[str, DataType]]) -> list[Found | Failure]:
    chosen = frame.selectExpr(*(f"({spark}) AS r{number}" for number, (spark, _) in enumerate(calls)))
    # What times are in Python depends on where it runs, and not all of them fit.
    rows = chosen.selectExpr(
        *(
            f"CAST(r{number} AS STRING)" if kind in (DATE, TIMESTAMP) else f"r{number}"
            for number, (_, kind) in enumerate(calls)
        )
    ).collect()
    return [
        Found(each.dataType.simpleString().lower(), [plain(row[number]) for row in rows])
        for number, each in enumerate(chosen.schema)
    ]


def declared(kind: DataType) -> str:
    """As Spark's schemas write it."""
    return spark_type(kind).replace("`", "").lower()


def plain(value: Any) -> Any:
    match value:
        case Row():
            return {name: plain(each) for name, each in value.asDict().items()}
        case bytearray():
            return bytes(value)
        case list():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case _:
            return value
