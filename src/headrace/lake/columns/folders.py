"""Rows by the folder that they belong to: the values of the partition columns, as Spark and Delta write them.

A folder is named `<column>=<value>`, with characters escaped as Spark does; null and the empty text are one
value, `NO_VALUE`. Values that a folder cannot have are left to the way of single rows, which has a reason for
each.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.file_names import escaped
from headrace.lake.new_partitions import LONGEST_NAME, NO_VALUE, Partition
from headrace.lake.types import Simple, Type

# Types whose values have the same text here as in Spark.
FOLDER_TYPES: Final = frozenset({Simple.STRING, Simple.INT, Simple.BIGINT, Simple.DATE, Simple.BOOLEAN})
# More of them in a batch are rather a flood of made-up values, about which a policy decides.
MOST_FOLDERS: Final = 512
# Seven columns of so many values have numbers of 63 bits.
MOST_COLUMNS: Final = 7

_SMALL: Final = 2**16

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderColumn:
    """`is_date`: its texts must be dates."""

    name: str
    type: Type
    is_date: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Some rows of a table, by their numbers, and the values that they have in common: None for null."""

    values: tuple[str | None, ...]
    rows: pa.Array

    @property
    def partition(self) -> Partition:
        """As `NewPartitions` knows it."""
        return tuple(NO_VALUE if value is None else value for value in self.values)

    def path(self, columns: Sequence[FolderColumn]) -> str:
        """With a slash behind it; empty without partition columns."""
        return "".join(
            f"{escaped(column.name)}={NO_VALUE if value is None else escaped(value)}/"
            for column, value in zip(columns, self.values, strict=True)
        )


def folders_of(table: pa.Table, columns: Sequence[FolderColumn]) -> list[Folder]:
    """The folders of the rows, each once; their rows are in order. Raises UnusualRecordsError."""
    if not columns:
        return [Folder(values=(), rows=pa.array(np.arange(len(table))))]
    # One number for each combination of values.
    code = np.zeros(len(table), np.int64)
    texts: list[list[str | None]] = []
    for column in columns:
        encoded = _encoded(table.column(column.name))
        if len(encoded.dictionary) > MOST_FOLDERS:
            raise _too_many()
        texts.append([folder_text(value, column) for value in encoded.dictionary.to_pylist()])
        code = code * len(texts[-1]) + np.asarray(encoded.indices, np.int64)
    order, present, ends = _sorted(code, math.prod(map(len, texts)))
    if len(present) > MOST_FOLDERS:
        raise _too_many()
    found: dict[tuple[str | None, ...], list[npt.NDArray[np.int64]]] = {}
    start = 0
    for number, end in zip(present, ends, strict=True):
        # The empty text and null are different values with the same folder.
        found.setdefault(_values(number, texts), []).append(order[start:end])
        start = end
    return [
        Folder(values=values, rows=pa.array(rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows))))
        for values, rows in found.items()
    ]


def _sorted(code: npt.NDArray[np.int64], codes: int) -> tuple[npt.NDArray[np.int64], list[int], list[int]]:
    """The rows by their codes, the codes that occur, and where the rows of each end."""
    if codes <= _SMALL:
        counts = np.bincount(code, minlength=codes)
        present = np.flatnonzero(counts)
        # Numbers of 16 bits are sorted in two passes.
        order = np.argsort(code.astype(np.uint16), kind="stable")
        return order, present.tolist(), np.cumsum(counts[present]).tolist()
    found, counts = np.unique(code, return_counts=True)
    return np.argsort(code, kind="stable"), found.tolist(), np.cumsum(counts).tolist()


def _values(number: int, texts: Sequence[list[str | None]]) -> tuple[str | None, ...]:
    values: list[str | None] = []
    for column in reversed(texts):
        number, place = divmod(number, len(column))
        values.append(column[place])
    return tuple(reversed(values))


def _too_many() -> UnusualRecordsError:
    return UnusualRecordsError(f"a batch has rows of more than {MOST_FOLDERS} folders")


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    encoded = column.combine_chunks().dictionary_encode("encode")
    return encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded


def folder_text(value: Any, column: FolderColumn) -> str | None:
    """Raises UnusualRecordsError if no folder can have this value."""
    match value:
        case None | "":
            if value == "" and column.is_date:
                raise UnusualRecordsError(f"{column.name} is not a date")
            return None
        case bool():
            text = "true" if value else "false"
        case datetime.date():
            text = value.isoformat()
        case _:
            text = str(value)
    if column.is_date and not _is_date(text):
        raise UnusualRecordsError(f"{column.name} is not a date")
    if len(f"{column.name}={escaped(text)}".encode()) > LONGEST_NAME:
        raise UnusualRecordsError(f"{column.name} is too long for the name of a folder")
    if text == NO_VALUE:
        raise UnusualRecordsError(f"{column.name} has the name that stands for null")
    return text


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
