"""The settings with which the embedded broker starts.

Invariants: nothing here changes while the broker runs; what can change is a config of the broker or of a
topic (`broker/configs/`). Never reads flags or files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FsyncPolicy = Literal["os", "interval", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """`port` 0 chooses a free one. `configs` are broker configs by Kafka's names, as in server.properties."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str = ""
    node_id: int = 1
    fsync: FsyncPolicy = "os"
    fsync_interval_ms: int = 1_000
    default_partitions: int = 1
    auto_create_topics: bool = True
    max_message_bytes: int = 1024 * 1024 + 12
    max_request_bytes: int = 100 * 1024 * 1024
    idle_timeout_ms: int = 600_000
    configs: dict[str, str] = field(default_factory=dict)
