"""DELIMITED: a line of fields, quoted if necessary, as in ksqlDB's DELIMITED and in most CSV files.

Only for columns without inner structure. An empty field is null, and so is the field of an empty line if
there is only one column. A line with more or fewer fields than columns cannot be read.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.spark.formats.text_values import as_json_value, unfit, value_of
from headrace.pipeline.statements.types import ScalarType

_BROKEN: Final = "__broken"
# The parser's own limit is 20480.
_MOST_FIELDS: Final = 20_000
_NAMED_DELIMITERS: Final = {"TAB": "\t", "SPACE": " "}


class DelimitedReader:
    def __init__(self, columns: tuple[Column, ...], *, side: str, delimiter: str) -> None:
        self._columns = columns
        self._side = side
        self._options = _options(delimiter) | {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _BROKEN,
            "nullValue": "",
            "enforceSchema": "true",
        }

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        text = raw.cast("string")
        fields = ", ".join(f"c{number} STRING" for number in range(len(self._columns)))
        line = F.from_csv(text, f"{fields}, {_BROKEN} STRING", self._options)
        # Spark's parser fails on lines with more fields.
        return F.when(
            F.length(text) - F.length(F.replace(text, F.lit(self._options["sep"]))) < _MOST_FIELDS, line
        )

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return F.when(parsed[_BROKEN].isNull(), value_of(self._text(parsed, column), column.type))

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        count = len(self._columns)
        has_line = raw.isNotNull() if count > 1 else F.octet_length(raw) > 0
        reason = F.when(
            has_line & (parsed[_BROKEN].isNotNull() | parsed.isNull()),
            F.lit(f"The {self._side} is not a line of {count} delimited fields."),
        )
        for column in self._columns:
            reason = reason.when(*unfit(self._text(parsed, column), column, side=self._side))
        return reason

    def _text(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return parsed[f"c{self._columns.index(column)}"]


class DelimitedWriter:
    def __init__(self, columns: tuple[Column, ...], *, delimiter: str) -> None:
        self._columns = columns
        self._options = _options(delimiter) | {"nullValue": "", "emptyValue": ""}

    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:
        fields = [_field(values[column.name], column).alias(column.name) for column in self._columns]
        line = F.to_csv(F.struct(*fields), self._options).cast("binary")
        if len(fields) > 1:
            return line
        # Of a line with nothing in it Spark's writer makes null, and fails on that.
        is_empty = F.coalesce(fields[0].cast("string"), F.lit("")) == ""
        return F.when(is_empty, F.lit(b"")).otherwise(line)

    def reason(self, values: dict[str, SparkColumn]) -> SparkColumn | None:  # noqa: ARG002
        return None


def _field(value: SparkColumn, column: Column) -> SparkColumn:
    if column.type is ScalarType.BYTES:
        return F.base64(value)
    return as_json_value(value, column.type)


def _options(delimiter: str) -> dict[str, str]:
    return {
        "sep": _NAMED_DELIMITERS.get(delimiter, delimiter),
        # Quotes inside quotes are doubled, as in CSV; Spark's default is a backslash.
        "escape": '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    }
