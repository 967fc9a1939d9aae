"""From start until the first record is acknowledged: on a folder with a topic in it, and on an empty one.

A producer (librdkafka) with a record to send is already running and tries to connect every few milliseconds;
the clock runs from the start of the process until the record is acknowledged (acks=all). On the empty folder
this includes automatic creation of the topic and, for the embedded broker, of its folder; Apache Kafka's
storage is formatted beforehand and not counted. Target: 0.5 s for the embedded broker.

    python benchmarks/start_time.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

from side_by_side import options
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.waiting_clients import WaitingProducer

TOPIC = "start"
FIGURES = (
    Figure(name="folder with a topic", unit="s", decimals=3),
    Figure(name="empty folder", unit="s", decimals=3),
)
CLAIMS = tuple(Claim(figure=figure.name, of="embedded", bound="at most", target=0.5) for figure in FIGURES)


def measure(broker: Broker, _: int) -> dict[str, float]:
    """The empty folder first: it leaves the topic for the other start."""
    broker.erase()
    empty = start_and_produce(broker)
    return {"empty folder": empty, "folder with a topic": start_and_produce(broker)}


def start_and_produce(broker: Broker) -> float:
    producer = WaitingProducer(broker, TOPIC)
    broker.start()
    seconds = producer.acknowledged_at() - broker.started_at
    broker.wait_ready()
    broker.stop()
    return seconds


def main() -> None:
    arguments = options.parser(__doc__).parse_args()
    comparison = Comparison("start until the first record is acknowledged", figures=FIGURES, claims=CLAIMS)
    with options.engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
