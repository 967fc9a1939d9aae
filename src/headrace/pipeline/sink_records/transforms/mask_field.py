"""MaskField: fields with zero, an empty text, or another value in their place."""

from __future__ import annotations

import decimal
import re
from typing import Final

from headrace.lake.sink import Transformation
from headrace.lake.types import Decimal, Simple, Struct, Type
from headrace.pipeline.sink_records.columns import C, Columns
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.changes import ChangedSide, refused_type, require_struct, texts
from headrace.pipeline.sink_records.transforms.nesting import null_reason
from headrace.pipeline.sink_tables import refused

# A power of ten beyond has no low bits.
_MOST_DIGITS: Final = 400


def mask_field(typed: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """Nulls stay null, and fields that do not exist are ignored. A null record cannot be transformed."""
    names = texts(step, "fields")
    fields = [
        _masked(typed.made_by, each, step, has_schema=typed.has_schema) if each.name in names else each
        for each in require_struct(typed, step).fields
    ]
    return ChangedSide(typed=typed.with_fields(fields), reason=null_reason(typed, step))


def _masked(
    columns: Columns[C], each: NamedColumn[C], step: Transformation, *, has_schema: bool
) -> NamedColumn[C]:
    kind, replacement = each.field.type, step.settings.get("replacement")
    if replacement is not None:
        value = _replacement(replacement, each.name, kind, step)
        mask = columns.constant(value, kind)
    else:
        # A struct is an empty map in Kafka, if it has no schema.
        found = None if isinstance(kind, Struct) and has_schema else columns.empty(kind)
        if found is None:
            raise refused_type(step, each.name, kind, "cannot mask")
        mask = found
    return NamedColumn(field=each.field, column=columns.when(columns.is_present(each.column), mask))


def _replacement(replacement: str, name: str, kind: Type, step: Transformation) -> object:
    if kind is Simple.STRING:
        return replacement
    is_number = kind in (Simple.INT, Simple.BIGINT, Simple.FLOAT, Simple.DOUBLE) or isinstance(kind, Decimal)
    if not is_number or not java_number(replacement):
        raise refused_type(step, name, kind, f"cannot put {replacement!r} in place of")
    number = decimal.Decimal(replacement)
    if kind in (Simple.FLOAT, Simple.DOUBLE):
        return float(number)
    if isinstance(kind, Decimal):
        return _fitting(number, kind, name, step)
    bits = 32 if kind is Simple.INT else 64
    whole = int(number) if number.adjusted() < _MOST_DIGITS else 0
    # Java keeps the low bits of a number that is too large.
    return (whole + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def java_number(text: str) -> bool:
    """Whether Java's BigDecimal reads the text."""
    return re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text) is not None


def _fitting(number: decimal.Decimal, kind: Decimal, name: str, step: Transformation) -> decimal.Decimal:
    with decimal.localcontext(prec=kind.precision) as context:
        context.traps[decimal.Inexact] = True
        try:
            return number.quantize(decimal.Decimal(1).scaleb(-kind.scale))
        except (decimal.Inexact, decimal.InvalidOperation) as error:
            raise refused(
                step, f"has the replacement {number}, which does not fit the field {name}"
            ) from error
