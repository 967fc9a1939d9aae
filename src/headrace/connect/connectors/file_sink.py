"""A sink that appends each record's value to a file as one line: Kafka's FileStreamSink.

Invariants: it only appends, and each record is a line of its own, even if the file ends within a line (after
a crash, say); what was flushed is on the disk before its offsets are committed. Without a file it writes to
standard output, where the worker allows that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, Final

from headrace.connect.connectors.file_source import file_check
from headrace.connect.connectors.files import Files
from headrace.connect.data import SinkRecord
from headrace.connect.definitions import Definition
from headrace.connect.java_text import java_text
from headrace.connect.plugins import Config, Plugin, TaskContext, tasks_alike

CLASS: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"


def file_sink(files: Files, version: str, *, writes_standard_output: bool = False) -> Plugin:
    """`writes_standard_output`: without a file, lines go there, as in Kafka's standalone worker."""
    return Plugin(
        class_name=CLASS,
        kind="sink",
        version=version,
        settings=(
            Definition(
                name="file",
                kind="STRING",
                default=None,
                importance="HIGH",
                documentation="File to append to."
                + (" Without it, standard output." if writes_standard_output else ""),
            ),
        ),
        new_task=lambda: FileSinkTask(files),
        task_configs=tasks_alike,
        task_class="org.apache.kafka.connect.file.FileStreamSinkTask",
        check=file_check(files, needs_file=not writes_standard_output),
    )


class FileSinkTask:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: BinaryIO | None = None
        self._is_own = False

    def start(self, config: Config, _: TaskContext) -> None:
        path = config.get("file") or ""
        try:
            self._file = self._files.open_appending(path) if path else sys.stdout.buffer
        except OSError as error:
            raise OSError(f"Couldn't find or create file '{path}' for FileStreamSinkTask: {error}") from error
        self._is_own = bool(path)
        if path and self._ends_within_a_line(path):
            self._file.write(b"\n")
            self._file.flush()

    def _ends_within_a_line(self, path: str) -> bool:
        try:
            with self._files.open_reading(path) as file:
                if not file.seek(0, os.SEEK_END):
                    return False
                file.seek(-1, os.SEEK_END)
                return file.read(1) != b"\n"
        except PermissionError:
            # It may be written and not read.
            return False

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._file is not None
        lines = "".join(java_text(record.value, record.value_schema) + "\n" for record in records)
        self._file.write(lines.encode("utf-8", "replace"))
        # So that readers of the file see whole lines soon.
        self._file.flush()

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()
            if self._is_own:
                os.fsync(self._file.fileno())

    def stop(self) -> None:
        if self._file is not None and self._is_own:
            self._file.close()
