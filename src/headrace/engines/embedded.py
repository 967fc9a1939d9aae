"""The embedded broker as the log engine: one node, in this process, in `<data_dir>/broker`.

Invariant: settings of the platform become settings of the broker here and nowhere else. Never starts a second
process.
"""

from __future__ import annotations

from typing import Final, cast

from headrace.broker.run import OnReady, run
from headrace.broker.settings import BrokerSettings, FsyncPolicy
from headrace.core.addresses import reachable_host
from headrace.core.settings import Settings

FOLDER: Final = "broker"


def broker_settings(settings: Settings, *, max_message_bytes: int) -> BrokerSettings:
    """What the broker is told by the settings of the platform."""
    return BrokerSettings(
        data_dir=settings.data_dir / FOLDER,
        host=settings.host,
        port=settings.kafka_port,
        advertised_host=reachable_host(settings.host, settings.advertised_host),
        # Which are its choices was checked when the settings were read.
        fsync=cast("FsyncPolicy", settings.fsync),
        fsync_interval_ms=settings.fsync_interval_ms,
        default_partitions=settings.default_partitions,
        max_message_bytes=max_message_bytes,
    )


def serve(settings: Settings, on_ready: OnReady, *, max_message_bytes: int) -> None:
    """Serve until SIGTERM or SIGINT. Raises HeadraceError if it cannot start."""
    run(broker_settings(settings, max_message_bytes=max_message_bytes), on_ready)
