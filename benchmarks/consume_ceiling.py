"""What clients get from the embedded broker, from Apache Kafka, and from a broker that does almost nothing.

The third one reads the embedded broker's own segment file and answers Fetch with as little work as possible
(`side_by_side/prepared_fetch.py`). The work is that of `consume_assigned.py` and `consumer_perf.py`, whose
target is 1.3 times Apache Kafka's records per second. If even this broker gives a client less than that, the
limit is not the broker's work but the client, and the fact that both share the machine.

    python benchmarks/consume_ceiling.py [--records 3000000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import consume_assigned
import consumer_perf
from side_by_side import options, perf_tools
from side_by_side.comparison import Comparison, Figure
from side_by_side.engines import Broker, EmbeddedBroker

TOPIC = consume_assigned.TOPIC
TOOL = Figure(name="kafka-consumer-perf-test", unit="records/s")
FIGURES = (*consume_assigned.FIGURES, TOOL)


class Ceiling(Broker):
    """Sits in front of an embedded broker and answers Fetch itself."""

    def __init__(self, behind: Broker) -> None:
        super().__init__("ceiling", behind.folder.with_name("ceiling"), ready_line="ready")
        self._behind = behind

    def _command(self) -> list[str]:
        program = Path(__file__).parent / "side_by_side" / "prepared_fetch.py"
        # This program cannot serve a topic with more than one segment.
        (file,) = (self._behind.folder / "data").glob(f"**/{TOPIC}-0/*.log")
        return [sys.executable, str(program), str(self.port), str(self._behind.port), str(file)]


def measure(broker: Broker, number: int, records: int) -> dict[str, float]:
    # Two of the brokers share a coordinator, so each has its own groups.
    report = perf_tools.consume(broker, TOPIC, group=f"{broker.name}-{number}", records=records)
    return {**consume_assigned.measure(broker, records), TOOL.name: report.rate}


def main() -> None:
    # Reading takes so little time that Apache Kafka needs more rounds to warm up.
    parser = options.parser(__doc__, warm_up=2)
    parser.add_argument("--records", type=int, default=3_000_000, help="in the topic (default 3,000,000)")
    arguments = parser.parse_args()
    title = f"consume {arguments.records:,} records of 200 B, compared with the least work"
    comparison = Comparison(title, figures=FIGURES, claims=())
    with options.started_engines(arguments, consumer_perf.PROPERTIES) as engines:
        for broker in engines:
            perf_tools.create_topic(broker, TOPIC)
            perf_tools.produce(broker, TOPIC, records=arguments.records, properties=consume_assigned.PRODUCER)
        ceiling = Ceiling(next(broker for broker in engines if isinstance(broker, EmbeddedBroker)))
        try:
            ceiling.start()
            ceiling.wait_ready()
            comparison.run(
                [*engines, ceiling],
                lambda broker, number: measure(broker, number, arguments.records),
                rounds=arguments.rounds,
                warm_up=arguments.warm_up,
            )
        finally:
            ceiling.kill()
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
