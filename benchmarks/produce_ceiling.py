"""How close the embedded broker comes to the most that Kafka's own tool can produce.

The peer is the embedded broker without a log: it acknowledges every batch and discards it. With this client
on this machine hardly any broker could be faster. The settings are those of `produce_throughput.py`,
`produce_single_records.py` and `produce_lz4.py`.

    python benchmarks/produce_ceiling.py [--rounds 5] [--only-settings throughput|single|lz4] [--json FILE]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

import produce_lz4
import produce_single_records
import produce_throughput
from side_by_side import options, perf_tools, produce
from side_by_side.comparison import Comparison
from side_by_side.engines import Broker, EmbeddedBroker

RECORD_SIZE = 200
SETTINGS = {
    "throughput": (3_000_000, produce_throughput.PROPERTIES),
    "single": (60_000, produce_single_records.PROPERTIES),
    "lz4": (3_000_000, produce_lz4.PROPERTIES),
}


class ForgetfulBroker(EmbeddedBroker):
    """The ceiling."""

    def __init__(self, folder: Path) -> None:
        program = Path(__file__).parent / "side_by_side" / "forgetful_broker.py"
        super().__init__(folder, command=shlex.join([sys.executable, str(program), "broker"]))
        self.name = "forgetful"


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--only-settings", choices=sorted(SETTINGS), default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        folder = Path(name)
        events = folder / "events.txt"
        produce_lz4.write_events(events, RECORD_SIZE)
        brokers: list[Broker] = [EmbeddedBroker(folder / "kept"), ForgetfulBroker(folder / "forgotten")]
        try:
            for broker in brokers:
                broker.start()
            for broker in brokers:
                broker.wait_ready()
            for settings in SETTINGS:
                if arguments.only_settings in {"", settings}:
                    _compare(settings, brokers, events, arguments)
        finally:
            for broker in brokers:
                broker.kill()


def _compare(name: str, brokers: list[Broker], events: Path, arguments: argparse.Namespace) -> None:
    records, properties = SETTINGS[name]
    comparison = Comparison(
        f"{name}: the broker, and one that discards everything",
        figures=(produce.RATE, *produce.CPU),
        claims=(),
    )

    def measure(broker: Broker, number: int) -> dict[str, float]:
        topic = f"{name}-{number}"
        perf_tools.create_topic(broker, topic)
        report = perf_tools.produce(
            broker,
            topic,
            records=records,
            record_size=RECORD_SIZE,
            payload_file=events if name == "lz4" else None,
            properties=properties,
        )
        return {
            produce.RATE.name: report.rate,
            "broker CPU": report.broker_cpu,
            "client CPU": report.client_cpu,
        }

    comparison.run(brokers, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
    file = arguments.json
    comparison.report(properties, file and file.with_name(f"{file.stem}_{name}{file.suffix}"))


if __name__ == "__main__":
    main()
