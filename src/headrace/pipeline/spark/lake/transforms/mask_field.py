"""MaskField: fields with zero, an empty text, or another value in their place."""

from __future__ import annotations

import decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Transformation
from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.pipeline.sink_tables import refused
from headrace.pipeline.spark.lake.records import NamedColumn, Record, Typed, nothing
from headrace.pipeline.spark.lake.transforms.casting import java_number
from headrace.pipeline.spark.lake.transforms.changes import ChangedSide, refused_type, require_struct, texts
from headrace.pipeline.spark.lake.transforms.nesting import null_reason

# A power of ten beyond has no low bits.
_MOST_DIGITS: Final = 400


def mask_field(typed: Typed, step: Transformation, _: Record) -> ChangedSide:
    """Nulls stay null, and fields that do not exist are ignored. A null record cannot be transformed."""
    names = texts(step, "fields")
    fields = [
        _masked(each, step, has_schema=typed.has_schema) if each.name in names else each
        for each in require_struct(typed, step).fields
    ]
    return ChangedSide(typed=typed.with_fields(fields), reason=null_reason(typed, step))


def _masked(each: NamedColumn, step: Transformation, *, has_schema: bool) -> NamedColumn:
    kind, replacement = each.field.type, step.settings.get("replacement")
    if replacement is not None:
        mask = _replacement(replacement, each.name, kind, step)
    elif isinstance(kind, Struct) and not has_schema:
        # An empty map in Kafka.
        mask = F.struct(*(nothing(inner.type).alias(inner.name) for inner in kind.fields))
    else:
        found = _empty(kind)
        if found is None:
            raise refused_type(step, each.name, kind, "cannot mask")
        mask = found
    return NamedColumn(field=each.field, column=F.when(each.column.isNotNull(), mask))


def _empty(kind: Type) -> Column | None:  # noqa: PLR0911 - one for each type
    match kind:
        case Simple.BOOLEAN:
            return F.lit(False)
        case Simple.STRING:
            return F.lit("")
        case Simple.INT | Simple.BIGINT | Simple.FLOAT | Simple.DOUBLE | Decimal():
            return F.lit(0).cast(ddl(kind))
        case Simple.DATE:
            return F.date_from_unix_date(F.lit(0))
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return F.timestamp_seconds(F.lit(0)).cast(ddl(kind))
        case Array():
            return F.array().cast(ddl(kind))
        case Map():
            return F.create_map().cast(ddl(kind))
        case _:
            return None


def _replacement(replacement: str, name: str, kind: Type, step: Transformation) -> Column:
    if kind is Simple.STRING:
        return F.lit(replacement)
    is_number = kind in (Simple.INT, Simple.BIGINT, Simple.FLOAT, Simple.DOUBLE) or isinstance(kind, Decimal)
    if not is_number or not java_number(replacement):
        raise refused_type(step, name, kind, f"cannot put {replacement!r} in place of")
    number = decimal.Decimal(replacement)
    if kind in (Simple.FLOAT, Simple.DOUBLE):
        return F.lit(float(number)).cast(ddl(kind))
    if isinstance(kind, Decimal):
        return F.lit(_fitting(number, kind, name, step)).cast(ddl(kind))
    bits = 32 if kind is Simple.INT else 64
    whole = int(number) if number.adjusted() < _MOST_DIGITS else 0
    # Java keeps the low bits of a number that is too large.
    return F.lit((whole + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)).cast(ddl(kind))


def _fitting(number: decimal.Decimal, kind: Decimal, name: str, step: Transformation) -> decimal.Decimal:
    with decimal.localcontext(prec=kind.precision) as context:
        context.traps[decimal.Inexact] = True
        try:
            return number.quantize(decimal.Decimal(1).scaleb(-kind.scale))
        except (decimal.Inexact, decimal.InvalidOperation) as error:
            raise refused(
                step, f"has the replacement {number}, which does not fit the field {name}"
            ) from error
