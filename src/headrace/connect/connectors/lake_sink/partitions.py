"""How rows are put into folders: the settings of the partitioner as a `Partitioning`.

Invariants: what Confluent's partitioner would refuse when its task starts is refused by validate; two columns
never have the same name, whatever its case. Fields and paths that the partitioner has no use for, which
Confluent's ignores, are refused: whoever names them expects folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.connect.connectors.lake_sink.class_names import (
    DAILY_PATH,
    DAY_MS,
    EXTRACTORS,
    FIELD_AND_TIME_PARTITIONER,
    HOUR_MS,
    HOURLY_PATH,
    PARTITIONERS,
    Partitioner,
)
from headrace.connect.connectors.lake_sink.path_format import read_path_format
from headrace.lake.sink import Partitioning, TimePartitions

_BY_FIELD: Final[tuple[Partitioner, ...]] = ("field", "field and time")
_BY_TIME: Final[tuple[Partitioner, ...]] = ("time", "daily", "hourly", "field and time")
_OWN_PATH: Final[tuple[Partitioner, ...]] = ("time", "field and time")
_PATHS: Final[Mapping[Partitioner, str]] = {"daily": DAILY_PATH, "hourly": HOURLY_PATH}
_DURATIONS: Final[Mapping[Partitioner, int]] = {"daily": DAY_MS, "hourly": HOUR_MS}
_BOTH: Final = f"{FIELD_AND_TIME_PARTITIONER} has both"
# What Delta does not take in the name of a column.
_NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
# Columns that say where a row comes from, and those of keys and headers, begin with it.
_OURS: Final = "_"
_OUR_NAMES: Final = "Names that begin with an underscore are the sink's own columns"

Values = Mapping[str, Any]


def wrong_partitions(values: Values) -> dict[str, str]:
    """What is wrong with the settings together, by their names. Those with errors of their own are None."""
    partitioner = PARTITIONERS.get(values["partitioner.class"] or "")
    if partitioner is None:
        return {}
    wrong: dict[str, str] = {}
    fields = values["partition.field.name"] if partitioner in _BY_FIELD else []
    if partitioner in _BY_FIELD and fields == []:
        wrong["partition.field.name"] = "The partitioner needs at least one field"
    if partitioner not in _BY_FIELD and values["partition.field.name"]:
        wrong["partition.field.name"] = f"This partitioner has no folders by field. {_BOTH}"
    if partitioner not in _OWN_PATH and values["path.format"]:
        wrong |= _wrong_path(values["path.format"], partitioner)
    for name in fields or []:
        if _NOT_IN_NAMES & set(name):
            wrong["partition.field.name"] = f"A column cannot be named {name!r}"
    if partitioner in _BY_TIME:
        wrong |= _wrong_time(values, partitioner)
    if not wrong:
        wrong |= _wrong_names(values, partitioner, fields or [])
    return wrong


def _wrong_path(path: str, partitioner: Partitioner) -> dict[str, str]:
    own = _PATHS.get(partitioner)
    if own is None:
        return {"path.format": f"This partitioner has no folders by time. {_BOTH}"}
    if read_path_format(path) != read_path_format(own):
        return {"path.format": f"This partitioner has a path of its own, {own}: use TimeBasedPartitioner"}
    return {}


def _wrong_time(values: Values, partitioner: Partitioner) -> dict[str, str]:
    wrong = {}
    if partitioner in _OWN_PATH:
        if values["path.format"] == "":
            wrong["path.format"] = "Path format cannot be empty."
        if values["partition.duration.ms"] is not None and values["partition.duration.ms"] <= 0:
            wrong["partition.duration.ms"] = "Partition duration needs to be a positive."
    if values["timezone"] == "":
        wrong["timezone"] = "Timezone cannot be empty."
    extractor = EXTRACTORS.get(values["timestamp.extractor"] or "")
    if extractor == "RecordField" and not values["timestamp.field"]:
        wrong["timestamp.field"] = "The extractor RecordField needs a field"
    return wrong


def _wrong_names(values: Values, partitioner: Partitioner, fields: list[str]) -> dict[str, str]:
    wrong = {}
    columns = [name.casefold() for name in fields]
    if partitioner in _BY_TIME and values["path.format"] is not None:
        named = [name for name, _ in _columns(values, partitioner)]
        twice = [name for name in named if name.casefold() in columns]
        if any(name.startswith(_OURS) for name in named):
            wrong["path.format"] = _OUR_NAMES
        elif twice:
            wrong["path.format"] = f"The folder {twice[0]} has the name of a field in partition.field.name"
        columns += [name.casefold() for name in named]
    elif partitioner == "default":
        columns = ["partition"]
    others = [name for name in values["partition.date.fields"] or [] if name not in fields]
    if others:
        wrong["partition.date.fields"] = f"{others[0]} is not among the fields that are partitions"
    json_column = values["json.column"] or ""
    if json_column.startswith(_OURS):
        wrong["json.column"] = _OUR_NAMES
    elif _NOT_IN_NAMES & set(json_column):
        wrong["json.column"] = f"A column cannot be named {json_column!r}"
    elif json_column.casefold() in columns:
        wrong["json.column"] = f"{json_column} is a partition already"
    return wrong


def read_partitions(values: Values) -> Partitioning:
    """Of settings without errors."""
    partitioner = PARTITIONERS[values["partitioner.class"]]
    by_field = partitioner in _BY_FIELD
    return Partitioning(
        fields=tuple(values["partition.field.name"]) if by_field else (),
        date_fields=tuple(values["partition.date.fields"]) if by_field else (),
        time=_read_time(values, partitioner) if partitioner in _BY_TIME else None,
        by_partition=partitioner == "default",
    )


def _read_time(values: Values, partitioner: Partitioner) -> TimePartitions:
    extractor = EXTRACTORS[values["timestamp.extractor"]]
    return TimePartitions(
        columns=_columns(values, partitioner),
        duration_ms=_DURATIONS.get(partitioner) or values["partition.duration.ms"],
        timezone=values["timezone"],
        extractor=extractor,
        field=values["timestamp.field"] if extractor == "RecordField" else "",
    )


def _columns(values: Values, partitioner: Partitioner) -> tuple[tuple[str, str], ...]:
    return read_path_format(_PATHS.get(partitioner) or values["path.format"])
