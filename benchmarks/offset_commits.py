"""Offset commits: 50,000 for one partition, one commit per request.

With confluent-kafka (librdkafka), both without waiting for each answer and one by one; and with a client that
does nothing else (`side_by_side/plain_commit.py`), which shows how many the broker itself can handle on one
connection. Target: with librdkafka, no fewer commits per second than with Apache Kafka 4.3.1.

    python benchmarks/offset_commits.py [--commits 50000] [--one-by-one 5000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.plain_commit import commit_all
from side_by_side.processes import cpu_time

TOPIC = "commits"
PATIENCE = 120.0
PAUSE = 0.1
NO_COORDINATOR_YET = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
FIGURES = (
    Figure(name="without waiting", unit="commits/s"),
    Figure(name="one by one", unit="commits/s"),
    Figure(name="plain client", unit="commits/s"),
    Figure(name="broker CPU", unit="s", decimals=2),
)
CLAIMS = tuple(
    Claim(figure=name, of="ratio", bound="at least", target=1.0) for name in ("without waiting", "one by one")
)


class Committer:
    """A consumer that only commits."""

    def __init__(self, broker: Broker, group: str) -> None:
        self._answered = 0
        self._failures: list[object] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "on_commit": self._committed,
                "log_level": 3,
            }
        )
        self._commit_first()

    def one_by_one(self, commits: int) -> float:
        """Commits per second."""
        began = time.monotonic()
        for offset in range(commits):
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        return commits / (time.monotonic() - began)

    def without_waiting(self, commits: int) -> float:
        """Commits per second, until the last one is answered."""
        self._consumer.poll(0)
        self._answered = 0
        began = time.monotonic()
        for offset in range(commits):
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=True)
        while self._answered < commits:
            self._consumer.poll(0.1)
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"only {self._answered} of {commits} commits were answered")
        seconds = time.monotonic() - began
        if self._failures:
            raise RuntimeError(f"{len(self._failures)} commits failed: {self._failures[0]}")
        return commits / seconds

    def close(self) -> None:
        self._consumer.close()

    def _commit_first(self) -> None:
        """The first commit finds the coordinator, which may have to create its topic."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
                return
            except KafkaException as error:
                if time.monotonic() > deadline or error.args[0].code() not in NO_COORDINATOR_YET:
                    raise
                time.sleep(PAUSE)

    def _committed(self, error: object, _: list[TopicPartition]) -> None:
        self._answered += 1
        if error is not None:
            self._failures.append(error)


def measure(broker: Broker, number: int, commits: int, one_by_one: int) -> dict[str, float]:
    group = f"group-{number}"
    before = cpu_time(broker.pid)
    committer = Committer(broker, group)
    singly = committer.one_by_one(one_by_one)
    without_waiting = committer.without_waiting(commits)
    committer.close()
    began = time.monotonic()
    commit_all(broker.port, group, TOPIC, commits)
    plain = commits / (time.monotonic() - began)
    values = (without_waiting, singly, plain, (cpu_time(broker.pid) - before).total)
    return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--commits", type=int, default=50_000, help="without waiting (default 50,000)")
    parser.add_argument("--one-by-one", type=int, default=5_000, help="one by one (default 5,000)")
    profiling.add_option(parser)
    arguments = parser.parse_args()

    def work(broker: Broker, number: int) -> dict[str, float]:
        return measure(broker, number, arguments.commits, arguments.one_by_one)

    comparison = Comparison(f"{arguments.commits:,} offset commits", figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        for broker in engines:
            perf_tools.create_topic(broker, TOPIC)
        comparison.run(engines, work, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)
        profiling.profile(arguments, engines, lambda broker: work(broker, arguments.rounds + 1))


if __name__ == "__main__":
    main()
