"""What a question reads: a table's files at one version, and the records of its topic behind them. Values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TailChunk:
    """Decoded records of one partition. They have the offsets from `first` on and before `end`.

    `path` is an Arrow IPC file (`pa.ipc.new_file`, uncompressed), with the columns of the table in its order.
    If there are `files`, it is the folder of these instead: Parquet, as the table itself would have them, in
    folders of the partition columns.
    """

    path: str
    partition: int
    first: int
    end: int
    rows: int
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TailView:
    """The tail of a table at one version.

    Rows whose topic offset lies below `starts` of their partition are in the files of that version and must
    be left out (a chunk may begin before them). `reached` is up to where the topic was read. `behind` is
    about how many records are not in the view although they were in the topic when the view was asked for,
    and `reason` says why the view is not complete (empty if it is).

    `unknown` are columns whose values only the lake will know, and which are null here: a question that uses
    them must leave the view's rows out, and say so.
    """

    chunks: tuple[TailChunk, ...]
    starts: Mapping[int, int]
    reached: Mapping[int, int]
    behind: int = 0
    reason: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """At most `records` of the topic wait at a query before the topic of a table, and why."""

    query: str
    topic: str
    records: int
    reason: str
