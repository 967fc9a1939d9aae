"""How much of what Kafka's own tool can produce at most goes through the embedded broker.

The peer is the embedded broker without a log: it answers every batch and forgets it. With this client on this
machine hardly any broker could be faster. The settings are those of `produce_throughput.py` and of
`produce_single_records.py`.

    python benchmarks/produce_ceiling.py [--rounds 5] [--only-settings throughput|single]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from side_by_side import options, perf_tools, produce
from side_by_side.comparison import Comparison
from side_by_side.engines import Broker, EmbeddedBroker

SETTINGS = {
    "throughput": (3_000_000, {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}),
    "single": (60_000, {"acks": "all", "linger.ms": "0", "batch.size": "1"}),
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
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        brokers: list[Broker] = [
            EmbeddedBroker(Path(folder, "kept")),
            ForgetfulBroker(Path(folder, "forgotten")),
        ]
        try:
            for broker in brokers:
                broker.start()
            for name, (records, properties) in SETTINGS.items():
                if arguments.only_settings in {"", name}:
                    _compare(name, brokers, records, properties, arguments)
        finally:
            for broker in brokers:
                broker.kill()


def _compare(
    name: str,
    brokers: list[Broker],
    records: int,
    properties: dict[str, str],
    arguments: argparse.Namespace,
) -> None:
    comparison = Comparison(
        f"{name}: the broker, and one that forgets", figures=(produce.RATE, *produce.CPU), claims=()
    )

    def measure(broker: Broker, number: int) -> dict[str, float]:
        topic = f"{name}-{number}"
        perf_tools.create_topic(broker, topic)
        report = perf_tools.produce(
            broker, topic, records=records, record_size=200, payload_file=None, properties=properties
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
