"""JSON values without schemas as rows: the fields that are columns, and the others in a column of their own.

The columns are given; `json_columns.py` finds them in the data. A field that is no column is ignored, or kept
in the column `json_column`, as a JSON object of all such fields, null if there are none. Values that are not
objects have no columns and make dead letters; so do most objects with the same name twice, which variants do
not have.

If all columns are single values, Spark's JSON reader makes them in one pass. It takes only fields with the
exact names, and says that a value does not fit, but not which; such records are read again, as variants, like
all records of other tables.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.types import Field, Simple, Struct
from headrace.pipeline.spark.lake.fitting import Fit, spark_ddl
from headrace.pipeline.spark.lake.values import parsed_once
from headrace.pipeline.spark.lake.variant_fitting import (
    by_column,
    field_of,
    is_column,
    members_of,
    once,
    variant_fit,
)

# Types that Spark's JSON reader takes as strictly as variants do.
_QUICK: Final = frozenset({Simple.BOOLEAN, Simple.INT, Simple.BIGINT, Simple.DOUBLE, Simple.STRING})
_MISFIT: Final = "__headrace_misfit"


class JsonValues:
    """`struct` has the columns and, if there is one, the `json_column`."""

    def __init__(self, struct: Struct, *, json_column: str = "", side: str = "value") -> None:
        columns = tuple(each for each in struct.fields if each.name.casefold() != json_column.casefold())
        others = (Field(name=json_column, type=Simple.STRING),) if json_column else ()
        self.struct = Struct(fields=(*columns, *others))
        self._columns = Struct(fields=columns)
        self._names = [each.name for each in columns]
        self._json_column = json_column
        self._side = side
        self._is_quick = not json_column and bool(columns) and all(each.type in _QUICK for each in columns)
        self._fits: dict[str, Fit] = {each.name: variant_fit(each.type, each.name) for each in columns}

    def parsed(self, raw: Column) -> Column:
        """`row` if it could be made in one pass; otherwise `members`, null if the value is not an object."""
        text = F.make_valid_utf8(raw.cast("string"))
        if not self._is_quick:
            return parsed_once(self._members(text).alias("members"))
        found = once(
            self._row(text),
            lambda row: F.struct(
                row.alias("row"), F.when(row.isNull(), self._members(text)).alias("members")
            ),
        )
        return parsed_once(found["row"].alias("row"), found["members"].alias("members"))

    def value(self, parsed: Column) -> Column:
        members = parsed["members"]
        values = [
            fit.value(field_of(members["fields"], name)).alias(name) for name, fit in self._fits.items()
        ]
        if self._json_column:
            values.append(_object(members["others"]).alias(self._json_column))
        made = F.when(members.isNotNull(), F.struct(*values).cast(spark_ddl(self.struct)))
        return F.coalesce(parsed["row"], made) if self._is_quick else made

    def reason(self, raw: Column, parsed: Column) -> Column:
        members = parsed["members"]
        no_object = F.lit(f"The {self._side} is not a JSON object, or has a field twice.")
        problems = [
            fit.problem(field_of(members["fields"], name))
            for name, fit in self._fits.items()
            if fit.problem is not None
        ]
        none = F.lit(None).cast("string")
        reason = F.when(raw.isNull(), none)
        if self._is_quick:
            reason = reason.when(parsed["row"].isNotNull(), none)
        return reason.when(members.isNull(), no_object).otherwise(F.coalesce(none, *problems))

    def _row(self, text: Column) -> Column:
        """The columns; null if there is no object, a value does not fit, or a name is spelled otherwise."""
        misfit = Field(name=_MISFIT, type=Simple.STRING)
        kind = spark_ddl(Struct(fields=(*self._columns.fields, misfit)))
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MISFIT}
        doubles = [each.name for each in self._columns.fields if each.type is Simple.DOUBLE]

        def checked(row: Column) -> Column:
            is_bad = row[_MISFIT].isNotNull()
            for name in doubles:
                # The reader takes texts such as "NaN" for numbers.
                is_odd = F.isnan(row[name]) | row[name].isin(float("inf"), float("-inf"))
                is_bad = is_bad | F.coalesce(is_odd, F.lit(False))
            is_other = F.coalesce(F.exists(F.json_object_keys(text), self._is_other_name), F.lit(True))
            columns = F.struct(*(row[name].alias(name) for name in self._names))
            return F.when(~is_bad & ~is_other, columns.cast(spark_ddl(self._columns)))

        return once(F.from_json(text, kind, options), checked)

    def _is_other_name(self, name: Column) -> Column:
        """Whether the field is in a column with another spelling of its name."""
        return ~name.isin(self._names) & is_column(name, self._names)

    def _members(self, text: Column) -> Column:
        """The fields by name, as written and as columns have them."""
        return once(
            members_of(F.try_parse_json(text)),
            lambda members: F.when(
                members.isNotNull(), F.struct(by_column(members).alias("fields"), *self._kept(members))
            ),
        )

    def _kept(self, members: Column) -> list[Column]:
        if not self._json_column:
            return []
        return [F.map_filter(members, lambda name, _: ~is_column(name, self._names)).alias("others")]


def _object(members: Column) -> Column:
    return F.when(F.size(members) > 0, F.to_json(members))
