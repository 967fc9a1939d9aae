"""Types of columns as Arrow has them, and so the Parquet files. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type

_SIMPLE: Final[Mapping[Simple, pa.DataType]] = {
    Simple.BOOLEAN: pa.bool_(),
    Simple.INT: pa.int32(),
    Simple.BIGINT: pa.int64(),
    Simple.FLOAT: pa.float32(),
    Simple.DOUBLE: pa.float64(),
    Simple.STRING: pa.string(),
    Simple.BINARY: pa.binary(),
    Simple.DATE: pa.date32(),
    Simple.TIMESTAMP: pa.timestamp("us", "UTC"),
    Simple.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def arrow_type(kind: Type) -> pa.DataType:
    match kind:
        case Simple():
            return _SIMPLE[kind]
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Array():
            return pa.list_(pa.field("element", arrow_type(kind.element)))
        case Map():
            return pa.map_(pa.string(), arrow_type(kind.value))
        case Struct():
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in kind.fields])
