"""The names of plain files, below the folder of their table. Pure.

If folders are those of the topic's partitions, a file has records of one partition, and its name is the one
that Confluent's sinks give: topic, partition and the first offset, `orders+3+0000018254.json`. If a commit
has several files of a partition and their first offsets are not known, the further ones have a number behind
the offset of the first: `orders+3+0000018254_00001.json`. If the topic was recreated, or came back shorter,
offsets come again; then names have the version of the table, too: `orders+3+0000000000_v0000000012.json`.

Other files have records of several partitions. Their names have the version of the table and a number:
`orders+v0000000012+00000.json`. Names sort as their contents do, and none is given twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from headrace.lake.new_partitions import NO_VALUE
from headrace.lake.sink import PlainStyle

# As Spark names the files of a write: number of the task, id of the write, number of the file in its folder.
_WRITTEN: Final = re.compile(
    r"part-(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[.-]c(\d+)((?:\.[A-Za-z0-9]+)*)"
)
# Characters that Spark escapes in the values of folders.
_ESCAPED: Final = re.compile(r"""[\x00-\x1F"#%'*/:=?\\\x7F{\[\]^]""")
_LONGEST_TOPIC: Final = 200
_NUMBER_DIGITS: Final = 5
_VERSION_DIGITS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file as Spark wrote it: the values of its folders as they are in their names, and the rest."""

    name: str
    size: int
    folders: tuple[str, ...]
    task: int
    number: int
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What was written of one partition: first and last offset, and how many records."""

    first: int
    last: int
    records: int

    @property
    def has_no_holes(self) -> bool:
        return self.last - self.first + 1 == self.records


def written(name: str, size: int) -> Written:
    """`name` is relative to the folder of the write. Raises ValueError if Spark did not name it."""
    *folders, file = name.split("/")
    found = _WRITTEN.fullmatch(file)
    if found is None:
        raise ValueError(f"{name} is not the name of a file that Spark wrote")
    return Written(
        name=name,
        size=size,
        folders=tuple(folder.partition("=")[2] for folder in folders),
        task=int(found[1]),
        number=int(found[2]),
        ending=found[3],
    )


def folder_of(columns: Sequence[str], values: Sequence[str]) -> str:
    """`values` as Spark escapes them."""
    return "/".join(f"{escaped(name)}={value}" for name, value in zip(columns, values, strict=True))


def partition_values(columns: Sequence[str], values: Sequence[str]) -> dict[str, str | None]:
    """As a log has them: not escaped, None for null."""
    return {
        name: None if value == NO_VALUE else unquote(value)
        for name, value in zip(columns, values, strict=True)
    }


def escaped(name: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


class FileNames:
    """Names of the files of one table, in the style that its connector asks for.

    `largest` is the most rows of a file. `ending` replaces that of Spark's text files.
    """

    def __init__(self, topic: str, style: PlainStyle, *, largest: int, ending: str | None = None) -> None:
        self._topic = escaped(topic)[:_LONGEST_TOPIC]
        self._style = style
        self._largest = largest
        self._ending = ending

    def of_partitions(
        self, files: Sequence[Written], stretches: Mapping[int, Stretch], *, version: int | None = None
    ) -> dict[Written, tuple[str, int | None]]:
        """For files whose last folder is the number of the topic's partition: the name of each, and its rows
        if they are known. `version` is None as long as no offset comes again.
        """
        again = "" if version is None else f"_v{version:0{_VERSION_DIGITS}d}"
        by_folder: dict[tuple[str, ...], list[Written]] = {}
        for file in sorted(files, key=lambda each: (each.folders, each.task, each.number)):
            by_folder.setdefault(file.folders, []).append(file)
        named: dict[Written, tuple[str, int | None]] = {}
        for folders, group in by_folder.items():
            partition = int(folders[-1])
            stretch = stretches[partition]
            in_order = len({file.task for file in group}) == 1
            for number, file in enumerate(group):
                rows: int | None = None
                if in_order:
                    rows = min(self._largest, stretch.records - number * self._largest)
                if in_order and stretch.has_no_holes:
                    place = self._offset(stretch.first + number * self._largest) + again
                else:
                    place = self._offset(stretch.first) + again
                    place += f"_{number:0{_NUMBER_DIGITS}d}" if number else ""
                named[file] = (self._joined(str(partition), place) + self._end(file), rows)
        return named

    def of_version(
        self, files: Sequence[Written], version: int, *, first: int = 0
    ) -> dict[Written, tuple[str, int | None]]:
        """For files with records of several partitions. `first` is the number of the first one."""
        ordered = sorted(files, key=lambda each: (each.folders, each.task, each.number))
        begin = f"v{version:0{_VERSION_DIGITS}d}"
        return {
            file: (self._joined(begin, f"{number:0{_NUMBER_DIGITS}d}") + self._end(file), None)
            for number, file in enumerate(ordered, start=first)
        }

    def _offset(self, offset: int) -> str:
        return f"{offset:0{self._style.offset_digits}d}"

    def _joined(self, *parts: str) -> str:
        return self._style.delimiter.join((self._topic, *parts))

    def _end(self, file: Written) -> str:
        return file.ending if self._ending is None else file.ending.replace(".txt", self._ending, 1)
