"""Small real Delta tables for tests: written by deltalake, or by hand with the folder names that Spark gives.

The two writers name folders differently: deltalake encodes every character but the plain ones, Spark only
those that a file system or Hive cannot bear. Both encode the path once more in the log.
"""

from __future__ import annotations

import json
import string
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake

PARTITIONS = ["EVENT_TYPE", "SERVER_DATE"]
# What Spark's ExternalCatalogUtils encodes in a partition's folder name, beside control characters.
_SPARK_ENCODES = set("\"#%'*/:=?\\{[]^\x7f")
_FIELDS = {"EVENT_TYPE": "string", "SERVER_DATE": "string", "USER_ID": "string", "_POSTED_AT": "timestamp"}


def events(rows: list[tuple[str | None, str | None, str]], **more: list[str]) -> Table:
    """Rows of event type, server date and user id, with further text columns."""
    columns = {"EVENT_TYPE": [row[0] for row in rows], "SERVER_DATE": [row[1] for row in rows]}
    columns |= {"USER_ID": [row[2] for row in rows], **more}
    return Table.from_pydict({name: Array(values, type=DataType.utf8()) for name, values in columns.items()})


def write_events(lake: Path, rows: list[tuple[str | None, str | None, str]], **options: str) -> None:
    """Append the rows to the table `events`."""
    write_deltalake(lake / "events", events(rows), partition_by=PARTITIONS, **{"mode": "append", **options})


def write_like_spark(
    lake: Path, rows: list[tuple[str | None, str, str]], *, name: str = "events", column_mapping: bool = False
) -> None:
    """A table with a file a row, with folders named as Spark names them."""
    commit(lake, 0, [*_header(name, column_mapping), *_added_files(lake / name, rows)], name=name)


def write_with_deletion_vector(lake: Path, *, name: str) -> None:
    """A table of one file, of whose 30 rows the log says that six are deleted."""
    (lake / name).mkdir(parents=True)
    path = lake / name / "part-0.parquet"
    duckdb.connect().execute(f"COPY (SELECT i::VARCHAR AS USER_ID FROM range(30) t(i)) TO '{_sql(path)}'")
    features = ["deletionVectors"]
    header = _header(name, False)
    header[0] = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    header[0]["protocol"] |= {"readerFeatures": features, "writerFeatures": features}
    header[1]["metaData"]["partitionColumns"] = []
    added = _added(path, path.name, {}, rows=30)
    vector = _deletion_vector([3, 4, 7, 11, 18, 29])
    added["add"]["deletionVector"] = {
        "storageType": "i",
        "pathOrInlineDv": _base85(vector),
        "sizeInBytes": len(vector),
        "cardinality": 6,
    }
    commit(lake, 0, [*header, added], name=name)


def _deletion_vector(rows: list[int]) -> bytes:
    """As in the Delta protocol: a magic number, then a Roaring bitmap of one container that lists rows."""
    magic, bitmaps, high_key, cookie, containers, container_key, offset = 1681511377, 1, 0, 12346, 1, 0, 16
    head = struct.pack("<iQIII", magic, bitmaps, high_key, cookie, containers)
    return head + struct.pack(f"<HHI{len(rows)}H", container_key, len(rows) - 1, offset, *rows)


def _base85(data: bytes) -> str:
    """Z85: the digits of each four bytes to the base 85."""
    alphabet = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(alphabet[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def _header(name: str, column_mapping: bool) -> list[dict[str, Any]]:
    def annotation(number: int, field: str) -> dict[str, object]:
        if not column_mapping:
            return {}
        return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field}

    schema = {
        "type": "struct",
        "fields": [
            {"name": field, "type": kind, "nullable": True, "metadata": annotation(number, field)}
            for number, (field, kind) in enumerate(_FIELDS.items(), start=1)
        ],
    }
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(_FIELDS))}
    metadata = {
        "id": f"{name}-by-hand",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": PARTITIONS,
        "configuration": configuration if column_mapping else {},
        "createdTime": 0,
    }
    protocol = (
        {"minReaderVersion": 2, "minWriterVersion": 5}
        if column_mapping
        else {"minReaderVersion": 1, "minWriterVersion": 2}
    )
    return [{"protocol": protocol}, {"metaData": metadata}]


def _added_files(table: Path, rows: list[tuple[str | None, str, str]]) -> Iterator[dict[str, Any]]:
    for number, (event_type, date, user) in enumerate(rows):
        folder = f"EVENT_TYPE={_spark_name(event_type)}/SERVER_DATE={_spark_name(date)}"
        path = table / folder / f"part-{number}.snappy.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        row = "SELECT $1::VARCHAR AS USER_ID, TIMESTAMPTZ '2026-01-01 10:00:00+00' AS _POSTED_AT"
        duckdb.connect().execute(f"COPY ({row}) TO '{_sql(path)}'", [user])
        # Java's URI encodes blanks and percent signs, and leaves letters of other alphabets.
        logged = quote(f"{folder}/{path.name}", safe="/=!$&'()*+,;:@~" + _letters(folder))
        yield _added(path, logged, {"EVENT_TYPE": event_type, "SERVER_DATE": date}, rows=1)


def _added(path: Path, logged: str, partition: dict[str, str | None], *, rows: int) -> dict[str, Any]:
    return {
        "add": {
            "path": logged,
            "partitionValues": partition,
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows}),
        }
    }


def commit(lake: Path, version: int, actions: list[dict[str, Any]], *, name: str = "events") -> None:
    """A commit of the Delta log, as it stands in a file."""
    log = lake / name / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text(
        "\n".join(json.dumps(action) for action in actions), encoding="utf-8"
    )


def data_files(lake: Path) -> list[Path]:
    return sorted(lake.rglob("*.parquet"))


def _spark_name(value: str | None) -> str:
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(
        f"%{ord(letter):02X}" if letter in _SPARK_ENCODES or ord(letter) < 32 else letter for letter in value
    )


def _letters(text: str) -> str:
    return "".join(letter for letter in text if ord(letter) > 127)


def _sql(path: Path) -> str:
    return str(path).replace("'", "''")
