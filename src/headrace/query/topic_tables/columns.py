"""The columns of a topic as a table, and the view that makes them from what is read.

| column | type | what it is |
|---|---|---|
| one for each field of the newest Avro schema `<topic>-value` | as in the lake | NULL if there is none |
| `_key` | VARCHAR | the key: text, Avro as JSON, anything else in hexadecimal digits |
| `_value` | JSON | the value, whatever it is; NULL for none, and for bytes that are no text |
| `_format` | VARCHAR | what the value is: `avro`, `json`, `text`, `binary`, `null` |
| `_problem` | VARCHAR | why a value in Avro cannot be read, or has no fields; else NULL |
| `_headers` | MAP(VARCHAR, VARCHAR[]) | all values of each header, in order |
| `_partition`, `_offset` | INTEGER, BIGINT | where the record is |
| `_timestamp` | TIMESTAMP WITH TIME ZONE | the record's own time, in milliseconds |
| `_bytes` | BLOB | the value as it is stored |

Names of ours begin with an underscore, as in the lake's tables. A field that has such a name is only in
`_value`. Pure.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.types import Field, Struct
from headrace.query.table_snapshot import quoted

KEY: Final = "_key"
HEADERS: Final = "_headers"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
BYTES: Final = "_bytes"
PROBLEM: Final = "_problem"
# What the view makes `_value` and `_format` from.
TEXT: Final = "_value as text"
AVRO: Final = "_value as avro"
FORM: Final = "_value is"

IS_AVRO: Final = "avro"
IS_TEXT: Final = "text"
IS_BINARY: Final = "binary"
IS_NULL: Final = "null"

_READ: Final = (
    pa.field(KEY, pa.string()),
    pa.field(TEXT, pa.string()),
    pa.field(AVRO, pa.string()),
    pa.field(FORM, pa.string()),
    pa.field(PROBLEM, pa.string()),
    pa.field(HEADERS, pa.map_(pa.string(), pa.list_(pa.string()))),
    pa.field(PARTITION, pa.int32()),
    pa.field(OFFSET, pa.int64()),
    pa.field(TIMESTAMP, pa.timestamp("us", "UTC")),
    pa.field(BYTES, pa.binary()),
)
# A text that is no JSON is a JSON string. Casting, and not `json_valid`, parses only once.
_SHOWN: Final = f"""{KEY},
CASE WHEN "{FORM}" = '{IS_AVRO}' THEN CAST("{AVRO}" AS JSON)
     ELSE coalesce(TRY_CAST("{TEXT}" AS JSON), to_json("{TEXT}")) END AS _value,
CASE WHEN "{FORM}" = '{IS_TEXT}' AND TRY_CAST("{TEXT}" AS JSON) IS NOT NULL THEN 'json'
     ELSE "{FORM}" END AS _format,
{PROBLEM}, {HEADERS}, {PARTITION}, {OFFSET}, {TIMESTAMP}, {BYTES}"""
_OURS: Final = frozenset({"_value", "_format", *(field.name for field in _READ)})


def fields_shown(fields: Struct) -> Struct:
    """The fields that get columns: SQL ignores case, and our own names come first."""
    taken = {name.casefold() for name in _OURS}
    found: list[Field] = []
    for field in fields.fields:
        if field.name.casefold() not in taken:
            taken.add(field.name.casefold())
            found.append(field)
    return Struct(fields=tuple(found))


def columns_read(fields: Struct) -> pa.Schema:
    """What is read of each record; `fields` are those shown."""
    return pa.schema([*(pa.field(each.name, arrow_type(each.type)) for each in fields.fields), *_READ])


def view_of(relation: str, fields: Struct) -> str:
    """The query that makes the table's columns from what was read."""
    own = "".join(f"{quoted(field.name)}, " for field in fields.fields)
    return f"SELECT {own}{_SHOWN} FROM {quoted(relation)}"
