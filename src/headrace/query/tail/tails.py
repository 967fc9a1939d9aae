"""The tails of all tables: what a question sees of a topic beyond the files of a version.

`view` gives the records of the topic behind the positions of a version, decoded, as files of Arrow. The files
of that version and this view have each record once. A table is followed from its first view on, and no longer
than somebody asks for it. Bounded: the files of all tails take at most `most_bytes` on the disk, and what has
been fetched and not decoded at most 16 MB of memory for each line (`line.py`).

Thread-safe. Never writes to a topic or a table.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.lake.location import Location
from headrace.query.snapshots import TableSnapshot
from headrace.query.sources import TailView
from headrace.query.table_snapshot import location_of
from headrace.query.tail.chunk_files import WORTHWHILE, ChunkFiles, Worthwhile
from headrace.query.tail.feeds import Feeds
from headrace.query.tail.table_tail import TableTail

_TICK_SECONDS: Final = 0.5
# A log that does not answer must not hold up a question for long.
_PATIENCE_SECONDS: Final = 3.0


class Tails:
    """`feeds` says which topic a table is fed by. `folder` is for this process alone, and emptied."""

    def __init__(
        self,
        bootstrap: str,
        feeds: Feeds,
        folder: Path,
        *,
        most_bytes: int,
        idle_seconds: float = 120.0,
        keep_seconds: float = 30.0,
        worthwhile: Worthwhile = WORTHWHILE,
    ) -> None:
        """A table is followed for `idle_seconds` after the last view. Chunks that the newest version does not
        need, and files that were merged, stay for `keep_seconds`: a question may be about to open them.
        Chunks that are `worthwhile` become data files.
        """
        self._feeds = feeds
        self._cluster = Cluster(bootstrap, timeout_seconds=_PATIENCE_SECONDS)
        self._files = ChunkFiles(
            folder, most_bytes=most_bytes, keep_seconds=keep_seconds, worthwhile=worthwhile
        )
        self._idle_seconds = idle_seconds
        self._keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, str], TableTail] = {}
        self._stopping = threading.Event()
        self._janitor = threading.Thread(target=self._tend, name="janitor of tails", daemon=True)
        self._janitor.start()

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:
        """The tail of the table at the snapshot's version. Waits up to `wait_seconds` until it has everything
        that was in the topic when it was asked for. Whatever is missing is said, never raised.

        A table that no connector writes has an empty tail.
        """
        deadline = time.monotonic() + wait_seconds
        location = location_of(snapshot)
        try:
            feed = self._feeds.of(location)
        except HeadraceError as error:
            return TailView(chunks=(), starts={}, reached={}, reason=error.message)
        if feed is None:
            return TailView(chunks=(), starts={}, reached={})
        while True:
            found = self._table(location, snapshot.table_id).view(snapshot.version, feed, deadline=deadline)
            if found is not None:
                return found
            # It was forgotten between being found and being asked.

    @property
    def bytes_used(self) -> int:
        """Of the files of all tails."""
        return self._files.used

    @property
    def followed(self) -> int:
        """How many tables are followed."""
        return len(self._tables)

    def close(self) -> None:
        """Ends all threads and removes the folder. No view may be asked for meanwhile."""
        self._stopping.set()
        self._janitor.join()
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.close()
        self._cluster.close()
        self._files.close()

    def _table(self, location: Location, table_id: str) -> TableTail:
        with self._lock:
            key = (str(location), table_id)
            if key not in self._tables:
                self._tables[key] = TableTail(
                    location,
                    table_id,
                    feeds=self._feeds,
                    cluster=self._cluster,
                    files=self._files,
                    open_reader=lambda: BatchReader(self._cluster, timeout_seconds=_PATIENCE_SECONDS),
                    keep_seconds=self._keep_seconds,
                )
            return self._tables[key]

    def _tend(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            with self._lock:
                tables = list(self._tables.items())
            for key, table in tables:
                table.tend(time.monotonic(), idle_seconds=self._idle_seconds)
                self._forget_idle(key, table)
            self._files.sweep(time.monotonic())

    def _forget_idle(self, key: tuple[str, str], table: TableTail) -> None:
        with self._lock:
            if table.idle_seconds(time.monotonic()) <= self._idle_seconds:
                return
            del self._tables[key]
        table.close()
