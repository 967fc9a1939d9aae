"""Reopening a log of 10 GB: after a clean stop, and after SIGKILL.

One partition is filled over the network with batches of 128 KiB; the first SIGKILL comes right after that,
without a restart in between. Each round: produce some more, kill, start; stop cleanly, start. The clock runs
from the start of the process until a consumer (librdkafka) that is already waiting has the last record of the
log; the embedded broker's `ready` line comes earlier. Target: 1 s after a clean stop, 3 s after SIGKILL.

What a killed process has written is still in the page cache: this is a crash of the broker, not the machine.

    python benchmarks/reopen.py [--gigabytes 10] [--rounds 3] [--dir FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable

from side_by_side import options, perf_tools
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.waiting_clients import WaitingConsumer

TOPIC = "reopen"
RECORD_SIZE = 16 * 1024
PRODUCER = {
    "acks": "all",
    "linger.ms": "5",
    "batch.size": str(128 * 1024),
    "buffer.memory": str(64 * 1024**2),
}
FIGURES = (
    Figure(name="clean stop: ready", unit="s", decimals=3),
    Figure(name="clean stop: last record read", unit="s", decimals=3),
    Figure(name="SIGKILL: ready", unit="s", decimals=3),
    Figure(name="SIGKILL: last record read", unit="s", decimals=3),
)
CLAIMS = (
    Claim(figure="clean stop: last record read", of="embedded", bound="at most", target=1.0),
    Claim(figure="SIGKILL: last record read", of="embedded", bound="at most", target=3.0),
)


class GrowingLog:
    """One partition of a broker, and how many records it has."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._records = 0
        perf_tools.create_topic(broker, TOPIC)

    def grow(self, size: float) -> None:
        count = max(1, int(size / RECORD_SIZE))
        perf_tools.produce(self._broker, TOPIC, records=count, record_size=RECORD_SIZE, properties=PRODUCER)
        self._records += count

    def reopen(self, end: Callable[[], None]) -> tuple[float, float]:
        """End the broker this way, start it: seconds until it is ready, and until the last record is read."""
        end()
        consumer = WaitingConsumer(self._broker, TOPIC, self._records - 1)
        self._broker.start()
        received_at = consumer.received_at()
        self._broker.wait_ready()
        return self._broker.ready_at - self._broker.started_at, received_at - self._broker.started_at


def main() -> None:
    parser = options.parser(__doc__, rounds=3, warm_up=0)
    parser.add_argument("--gigabytes", type=float, default=10, help="in the log (default 10)")
    parser.add_argument("--more", type=float, default=0.25, help="gigabytes before each kill (default 0.25)")
    arguments = parser.parse_args()
    _refuse_small_disk(arguments)
    title = f"reopening a log of {arguments.gigabytes:g} GB"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        logs = {}
        for broker in engines:
            logs[broker.name] = GrowingLog(broker)
            logs[broker.name].grow(arguments.gigabytes * 1e9)

        def measure(broker: Broker, _: int) -> dict[str, float]:
            log = logs[broker.name]
            log.grow(arguments.more * 1e9)
            killed = log.reopen(broker.kill)
            stopped = log.reopen(broker.stop)
            values = (*stopped, *killed)
            return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}

        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


def _refuse_small_disk(arguments: argparse.Namespace) -> None:
    engines = 1 if arguments.only else 2
    rounds = arguments.rounds + arguments.warm_up
    needed = engines * (arguments.gigabytes + rounds * arguments.more) * 1.1e9 + 2e9
    if arguments.dir is not None:
        arguments.dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(arguments.dir or tempfile.gettempdir()).free
    if free < needed:
        raise SystemExit(f"{needed / 1e9:.0f} GB of disk needed, {free / 1e9:.0f} GB free; see --dir")


if __name__ == "__main__":
    main()
