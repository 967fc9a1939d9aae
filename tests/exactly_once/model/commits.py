"""The commits topic of the model: histories as the shipped code encodes them. A power cut may shorten it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.pipeline.runs.commits import Commit, History, decode, encode


class ModelCommitLog:
    """Has the methods of `CommitLog` that a recording needs. `altered` is for mutants."""

    def __init__(self, altered: Callable[[Commit], Commit] = lambda commit: commit) -> None:
        self.records: list[tuple[str, bytes]] = []
        self.synced = 0
        self._altered = altered
        self._clock = 0

    def clock(self) -> int:
        """Every commit has a time of its own."""
        self._clock += 1
        return self._clock

    def history(self, key: str) -> History:
        values = [value for name, value in self.records if name == key]
        return decode(values[-1]) if values else History()

    def add(self, key: str, commit: Commit) -> None:
        self.replace(key, self.history(key).with_commit(self._altered(commit)))

    def replace(self, key: str, history: History) -> None:
        self.records.append((key, encode(history)))

    def cut(self, at: int) -> None:
        assert self.synced <= at
        del self.records[at:]
        self.synced = len(self.records)
