"""Errors that are no failures: a record has what its run does not know, and the next run will.

The plan of a running query is fixed, so the query ends with such an error before anything of the batch is
committed. The error says what to know.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.pipeline.spark.formats.avro_format import new_schema_id

# Before a schema in hexadecimal digits, and a space.
NEW_JSON_SCHEMA: Final = "HEADRACE_NEW_JSON_SCHEMA"
_NEW_JSON_SCHEMA_PATTERN: Final = re.compile(rf"{NEW_JSON_SCHEMA} ([0-9a-f]+) ")
_NEW_COLUMNS: Final = "HEADRACE_NEW_COLUMNS"
_NEW_COLUMNS_PATTERN: Final = re.compile(rf"{_NEW_COLUMNS} ([0-9a-f]+) ")


def new_columns_error(schema: str) -> str:
    """The text of an error for records with these fields, as Spark prints the type."""
    return f"{_NEW_COLUMNS} {schema.encode().hex()} The values have fields that are no columns yet."


def new_columns(error: str) -> str | None:
    """The inverse; None if it is not such an error."""
    found = _NEW_COLUMNS_PATTERN.search(error)
    return bytes.fromhex(found.group(1)).decode() if found else None


def new_json_schema(error: str) -> str | None:
    """The schema of JSON that a run did not know; None if it is not such an error."""
    found = _NEW_JSON_SCHEMA_PATTERN.search(error)
    return bytes.fromhex(found.group(1)).decode() if found else None


def restart_reason(error: str) -> str:
    """Why the query restarts although nothing failed; empty if it did fail."""
    if (schema_id := new_schema_id(error)) is not None:
        return f"restarts to read records of schema {schema_id}, which is new"
    if new_json_schema(error) is not None:
        return "restarts to read records of a schema that is new"
    if new_columns(error) is not None:
        return "restarts to add columns for fields that are new"
    return ""
