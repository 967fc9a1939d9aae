"""The embedded broker as the log engine: one node, in this process.

Invariant: only here do the platform's settings become the broker's. Never starts a second process.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from headrace.broker.run import OnReady, run
from headrace.broker.settings import BrokerSettings, FsyncPolicy
from headrace.core.addresses import reachable_host
from headrace.core.settings import Settings


def broker_settings(settings: Settings, folder: Path, *, max_message_bytes: int) -> BrokerSettings:
    """The broker's settings, from those of the platform."""
    return BrokerSettings(
        data_dir=folder,
        host=settings.host,
        port=settings.kafka_port,
        advertised_host=reachable_host(settings.host, settings.advertised_host),
        # The choices were checked when the settings were read.
        fsync=cast("FsyncPolicy", settings.fsync),
        fsync_interval_ms=settings.fsync_interval_ms,
        default_partitions=settings.default_partitions,
        max_message_bytes=max_message_bytes,
    )


def serve(settings: Settings, folder: Path, on_ready: OnReady, *, max_message_bytes: int) -> None:
    """Serve from this folder until SIGTERM or SIGINT. Raises HeadraceError if it cannot start."""
    run(broker_settings(settings, folder, max_message_bytes=max_message_bytes), on_ready)
