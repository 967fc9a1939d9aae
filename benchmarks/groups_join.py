"""100 consumers join one group: from the start of the first until each of them has its partition.

The topic has one partition per consumer; the consumers (librdkafka) are in one process and are started one
after the other without waiting. The group is stable once each of them has exactly one partition. Measured
with the classic protocol, where a member computes the assignment, and with the new one (KIP-848), where the
broker does. Both brokers have the same settings: a new group waits a second for more members, and members
using the new protocol are told to send a heartbeat every second. Target: no longer than with Apache Kafka
4.3.1.

    python benchmarks/groups_join.py [--consumers 100] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, TopicPartition
from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.processes import cpu_time

TOPIC = "shared"
PATIENCE = 120.0
PAUSE = 0.001
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
PROTOCOLS = ("classic", "consumer")
FIGURES = (
    *(Figure(name=f"{protocol} protocol", unit="s", decimals=2) for protocol in PROTOCOLS),
    *(Figure(name=f"broker CPU, {protocol}", unit="s", decimals=2) for protocol in PROTOCOLS),
)
CLAIMS = tuple(
    Claim(figure=f"{protocol} protocol", of="ratio", bound="at most", target=1.0) for protocol in PROTOCOLS
)


class Member:
    """A consumer and its partitions."""

    def __init__(self, broker: Broker, group: str, protocol: str) -> None:
        self.held: set[int] = set()
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 3,
            }
        )
        self.consumer.subscribe(
            [TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.held |= {each.partition for each in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.held -= {each.partition for each in partitions}


def join(broker: Broker, group: str, protocol: str, consumers: int) -> float:
    """Seconds until the group is stable."""
    began = time.monotonic()
    members: list[Member] = []
    try:
        while len(members) < consumers:
            members.append(Member(broker, group, protocol))
        while not stable(members):
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"held: {sorted(len(member.held) for member in members)}")
            for member in members:
                if (message := member.consumer.poll(0)) is not None:
                    raise RuntimeError(f"{group}: {message.error()}")
            time.sleep(PAUSE)
        return time.monotonic() - began
    finally:
        # Leaving takes a while; all at once, and not measured.
        with ThreadPoolExecutor(consumers) as pool:
            list(pool.map(lambda member: member.consumer.close(), members))


def stable(members: list[Member]) -> bool:
    return all(len(member.held) == 1 for member in members) and len(members) == len(
        set().union(*(member.held for member in members))
    )


def measure(broker: Broker, number: int, consumers: int) -> dict[str, float]:
    figures = {}
    for protocol in PROTOCOLS:
        before = cpu_time(broker.pid)
        figures[f"{protocol} protocol"] = join(broker, f"{protocol}-{number}", protocol, consumers)
        figures[f"broker CPU, {protocol}"] = (cpu_time(broker.pid) - before).total
    return figures


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--consumers", type=int, default=100, help="and partitions (default 100)")
    profiling.add_option(parser)
    arguments = parser.parse_args()
    title = f"{arguments.consumers} consumers join one group, until each has its partition"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments, PROPERTIES) as engines:
        for broker in engines:
            perf_tools.create_topic(broker, TOPIC, partitions=arguments.consumers)
        comparison.run(
            engines,
            lambda broker, number: measure(broker, number, arguments.consumers),
            rounds=arguments.rounds,
            warm_up=arguments.warm_up,
        )
        comparison.report({**vars(arguments), "broker": PROPERTIES}, arguments.json)
        profiling.profile(
            arguments, engines, lambda broker: measure(broker, arguments.rounds + 1, arguments.consumers)
        )


if __name__ == "__main__":
    main()
