"""A part of the query service that follows topics in a thread of its own, from `start` to `stop`.

Owns the thread, the lock and what the part was told to follow; what is done with the topics is the part's.
Invariant: only the thread reads and writes the log.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping

from headrace.client.topics import TopicIdentity


class TopicFollower(ABC):
    """`_wanted` is None until `follow` was called. It and `_problem` are guarded by `_lock`."""

    def __init__(self, name: str) -> None:
        """`name` is that of the thread."""
        self._name = name
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wanted: dict[str, TopicIdentity] | None = None
        self._problem = ""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def follow(self, topics: Mapping[str, TopicIdentity]) -> None:
        """These topics exist now; no others do."""
        with self._lock:
            self._wanted = dict(topics)

    @abstractmethod
    def _work(self) -> None:
        """Work until `_stopping` is set. Called in the thread."""
