"""Topics without files: what the ConfigStore needs of a data folder, for tests of configs alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.log.config import LogConfig


@dataclass(slots=True)
class LogInMemory:
    config: LogConfig = field(default_factory=LogConfig)
    producers_expire_after: int = 0

    def configure(self, config: LogConfig) -> None:
        self.config = config

    def expire_producers_after(self, milliseconds: int) -> None:
        self.producers_expire_after = milliseconds


@dataclass(slots=True)
class TopicInMemory:
    overrides: dict[str, str]
    partitions: list[LogInMemory]


class LogsInMemory:
    def __init__(self, broker_overrides: dict[str, str] | None = None) -> None:
        self.topics: dict[str, Any] = {}
        self.broker_overrides = broker_overrides or {}

    def add(self, name: str, overrides: dict[str, str] | None = None) -> LogInMemory:
        self.topics[name] = TopicInMemory(overrides or {}, [LogInMemory()])
        return self.topics[name].partitions[0]

    def set_broker_overrides(self, overrides: dict[str, str]) -> None:
        self.broker_overrides = overrides

    def set_overrides(self, name: str, overrides: dict[str, str], config: LogConfig) -> None:
        self.topics[name].overrides = overrides
        for log in self.topics[name].partitions:
            log.configure(config)
