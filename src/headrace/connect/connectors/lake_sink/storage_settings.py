"""Settings of the lake sink that say where rows go: the groups Storage and Partitioner."""

from __future__ import annotations

import re
import zoneinfo
from functools import cache
from typing import Any, Final

from headrace.connect.connectors.lake_sink.class_names import (
    DEFAULT_PARTITIONER,
    EXTRACTORS,
    FIELD_AND_TIME_PARTITIONER,
    LOCAL_STORAGE,
    PARTITIONERS,
    S3_STORAGE,
)
from headrace.connect.connectors.lake_sink.path_format import read_path_format
from headrace.connect.connectors.lake_sink.settings_table import (
    PARTITIONER,
    STORAGE,
    hint,
    known_class,
    limit,
    wrong_in_name,
)
from headrace.connect.definitions import REQUIRED, Definition

_STORAGES: Final = {S3_STORAGE: None, LOCAL_STORAGE: None}
_OFFSET: Final = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")


def _wrong_topics_dir(name: Any) -> str:
    parts = (name or "").strip("/").split("/")
    if parts == [""]:
        return ""
    wrong = [part for part in parts if part in ("", ".", "..") or not part.isprintable() or "\\" in part]
    return "It must be a path of plain folder names" if wrong else ""


def _wrong_path(pattern: Any) -> str:
    if not pattern:
        return ""
    try:
        read_path_format(pattern)
    except ValueError as error:
        return f"{error}"[:1].upper() + f"{error}"[1:]
    return ""


def _wrong_timezone(name: Any) -> str:
    if not name or _OFFSET.fullmatch(name) or name in _time_zones():
        return ""
    return f"The datetime zone id '{name}' is not recognised"


@cache
def _time_zones() -> frozenset[str]:
    # They are files, hundreds of them.
    return frozenset(zoneinfo.available_timezones())


def _wrong_fields(names: Any) -> str:
    for name in names or []:
        if not name.strip():
            return "Field name cannot be null or empty"
        if not all(part.strip() for part in name.split(".")):
            return "Field name cannot contain an empty or whitespace-only path segment"
    folded = [name.casefold() for name in names or []]
    return "A field can be a partition once" if len(set(folded)) < len(folded) else ""


def _wrong_extractor(name: Any) -> str:
    return "" if name in EXTRACTORS else f"Only Wallclock, Record and RecordField are supported, not {name}"


def storage_settings(*, is_confluents: bool) -> tuple[Definition, ...]:
    return (
        Definition(
            name="storage.class",
            kind="CLASS",
            default=REQUIRED if is_confluents else LOCAL_STORAGE,
            importance="HIGH",
            documentation=f"`{S3_STORAGE}` for a bucket, or `{LOCAL_STORAGE}` for folders of this machine.",
            group=STORAGE,
            order_in_group=1,
            display_name="Storage Class",
            validator=known_class(_STORAGES),
            recommended=tuple(_STORAGES),
        ),
        Definition(
            name="topics.dir",
            kind="STRING",
            default="topics" if is_confluents else "",
            importance="HIGH",
            documentation="Folder of the tables, in the bucket or the local folder; each topic is a table in "
            "`<topics.dir>/<topic>/`.",
            group=STORAGE,
            order_in_group=2,
            display_name="Topics directory",
            validator=_wrong_topics_dir,
        ),
        Definition(
            name="store.url",
            kind="STRING",
            default=None,
            importance="HIGH",
            documentation="For a bucket, the address of the store (`http://127.0.0.1:7070`), Amazon's own "
            "without it. For local storage a folder (`file:///absolute/folder`), the platform's lake without "
            "it.",
            group=STORAGE,
            order_in_group=3,
            display_name="Store URL",
        ),
        limit(
            "directory.delim",
            "STRING",
            "/",
            "Folders of a table are separated by slashes",
            group=STORAGE,
            importance="MEDIUM",
        ),
        Definition(
            name="file.delim",
            kind="STRING",
            default="+",
            documentation="Between the parts of the name of a plain file. Delta names the files of its "
            "tables.",
            group=STORAGE,
            order_in_group=5,
            display_name="File Delimiter",
            validator=wrong_in_name,
        ),
    )


PARTITIONER_SETTINGS: Final = (
    Definition(
        name="partitioner.class",
        kind="CLASS",
        default=DEFAULT_PARTITIONER,
        importance="HIGH",
        documentation="How rows are put into folders: by the topic's partition (DefaultPartitioner), by "
        "fields (FieldPartitioner), by time (TimeBasedPartitioner, DailyPartitioner, HourlyPartitioner), or, "
        f"ours, by fields and then by time (`{FIELD_AND_TIME_PARTITIONER}`). Fields and paths that the "
        "partitioner has no use for are refused.",
        group=PARTITIONER,
        order_in_group=1,
        width="LONG",
        display_name="Partitioner Class",
        dependents=("partition.field.name", "partition.duration.ms", "path.format", "locale", "timezone"),
        validator=known_class(
            PARTITIONERS, f"For folders by fields and by time, {FIELD_AND_TIME_PARTITIONER} is there."
        ),
        recommended=tuple(PARTITIONERS),
    ),
    Definition(
        name="partition.field.name",
        kind="LIST",
        default=[],
        documentation="Fields of the value whose values are the folders, `kind=…/day=…/`, "
        "separated by commas. For FieldPartitioner and FieldAndTimePartitioner.",
        group=PARTITIONER,
        order_in_group=2,
        display_name="Partition Field Name",
        validator=_wrong_fields,
    ),
    Definition(
        name="partition.duration.ms",
        kind="LONG",
        default=-1,
        documentation="Length of a partition by time, in milliseconds: times are rounded down to it before "
        "they are written as folders. Daily and Hourly have their own.",
        group=PARTITIONER,
        order_in_group=3,
        width="LONG",
        display_name="Partition Duration (ms)",
    ),
    Definition(
        name="path.format",
        kind="STRING",
        default="",
        documentation="Folders by time, with the letters YYYY, MM, dd, HH, mm, ss: `'year'=YYYY/'month'=MM`. "
        "Each folder is a column. A folder without a name gets it from its letters, so `YYYY/MM` makes the "
        "folders `year=2026/month=03`, and `YYYY-MM-dd` makes `date=2026-03-14`.",
        group=PARTITIONER,
        order_in_group=4,
        width="LONG",
        display_name="Path Format",
        validator=_wrong_path,
    ),
    hint(
        "locale",
        "STRING",
        "",
        "the parts of a path are numbers in every language.",
        group=PARTITIONER,
        importance="MEDIUM",
    ),
    Definition(
        name="timezone",
        kind="STRING",
        default="",
        documentation="Time zone of folders by time: `UTC`, `Europe/Paris`, `+02:00`.",
        group=PARTITIONER,
        order_in_group=6,
        width="LONG",
        display_name="Timezone",
        validator=_wrong_timezone,
    ),
    Definition(
        name="timestamp.extractor",
        kind="STRING",
        default="Wallclock",
        documentation="Which time decides about the folder: `Wallclock`, when the row is written; `Record`, "
        "the record's timestamp; `RecordField`, a field of the value. Confluent's class names work, too.",
        group=PARTITIONER,
        order_in_group=7,
        width="LONG",
        display_name="Timestamp Extractor",
        validator=_wrong_extractor,
    ),
    Definition(
        name="timestamp.field",
        kind="STRING",
        default="timestamp",
        documentation="Field for `RecordField`, with dots between the names of nested ones: milliseconds "
        "since 1970, a timestamp, or an ISO 8601 text.",
        group=PARTITIONER,
        order_in_group=8,
        width="LONG",
        display_name="Record Field for Timestamp Extractor",
    ),
)
