"""Schemas that read the bodies of Avro records, whatever names and logical types their writer used.

`body_schema` describes the bytes of the writer's schema, with names of its own (`f0`, `f1` for a record's
fields), without references, logical types or defaults. In the bytes, a record is nothing but its fields,
so the branches of a union may be wrapped in records: otherwise Spark would mix int with long. Decimals keep
their logical type with as many digits as there can be, because Spark cuts the bytes of a number that is
larger than its precision.

The body is in a record of its own, so that one that could not be read can be told from null. For that, the
schema to read with may have a further field: Avro sets the default of a field that the writer lacks, if and
only if all others could be read. Pure.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from headrace.lake.shapes import (
    MOST_DIGITS,
    Entries,
    Items,
    Leaf,
    Null,
    Record,
    Shape,
    Stored,
    Union,
    Values,
    digits_of,
)
from headrace.lake.types import Decimal

# The fields of the record around the body.
BODY: Final = "body"
DECODED: Final = "decoded"


def body_schema(shape: Shape, *, reads: bool) -> dict[str, Any]:
    """The schema of a record with the body; the one that reads has the field `decoded`, which is true."""
    fields = [{"name": BODY, "type": _Naming().schema(shape)}]
    if reads:
        fields.append({"name": DECODED, "type": "boolean", "default": True})
    return {"type": "record", "name": "Headrace", "fields": fields}


class _Naming:
    """One walk; every record, enum and fixed gets a name of its own."""

    def __init__(self) -> None:
        self._numbers = count()

    def schema(self, shape: Shape) -> Any:  # noqa: PLR0911 - one for each shape
        match shape:
            case Null():
                return "null"
            case Leaf():
                return self._leaf(shape)
            case Items():
                return {"type": "array", "items": self.schema(shape.element)}
            case Values():
                return {"type": "map", "values": self.schema(shape.value)}
            case Entries():
                return {"type": "array", "items": self.schema(shape.entry)}
            case Record():
                return self._record(tuple(part.shape for part in shape.fields))
            case Union():
                return [self._branch(part.shape, wrapped=shape.only is None) for part in shape.branches]

    def _leaf(self, leaf: Leaf) -> Any:
        match leaf.form:
            case "enum":
                return {"type": "enum", "name": self._name(), "symbols": list(leaf.symbols)}
            case "fixed":
                schema: Any = {"type": "fixed", "name": self._name(), "size": leaf.size}
                digits = min(MOST_DIGITS, digits_of(leaf.size))
            case _:
                schema = {"type": leaf.form}
                digits = MOST_DIGITS
        if leaf.stored is Stored.DECIMAL:
            assert isinstance(leaf.type, Decimal)
            schema |= {"logicalType": "decimal", "precision": digits, "scale": leaf.type.scale}
        return schema

    def _branch(self, shape: Shape, *, wrapped: bool) -> Any:
        if isinstance(shape, Null) or not wrapped:
            return self.schema(shape)
        return self._record((shape,))

    def _record(self, shapes: tuple[Shape, ...]) -> Any:
        name = self._name()
        fields = [{"name": f"f{at}", "type": self.schema(shape)} for at, shape in enumerate(shapes)]
        return {"type": "record", "name": name, "fields": fields}

    def _name(self) -> str:
        return f"N{next(self._numbers)}"
