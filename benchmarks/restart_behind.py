"""A restart behind a million uncommitted records: from RESUME to the first new record of a paused query.

A query in real-time mode converts a filled topic of JSON to Avro. Its batch lasts longer than the benchmark,
so nothing of what it wrote is committed: after PAUSE and RESUME it reads its topic and leaves out what is
there. The clock runs from just before RESUME until an event that was produced while it was paused is in its
topic. The peer is the same query over a topic of a thousand events. Both fail if an event arrives twice.
Target: at most 15 s.

    python benchmarks/restart_behind.py [--records 1000000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import Producer
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import TopicEnd, event, fill, stream_of
from side_by_side.statement_engines import parser
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import Platform, started_platform

PATIENCE = 300.0
BATCH_SECONDS = 3600
STOPPED = "STOPPED"
STATEMENT = """CREATE STREAM {name}_avro WITH (KAFKA_TOPIC = '{name}_avro', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date FROM {name} EMIT CHANGES;"""
FIGURES = (
    Figure(name="first new record", unit="s", decimals=2),
    Figure(name="CPU of the pipeline", unit="s", decimals=2),
)


@dataclass(kw_only=True)
class Query:
    """A query over a filled topic; `records` counts the events of its source."""

    name: str
    platform: Platform
    records: int
    query_id: str = ""

    def begin(self) -> None:
        bootstrap = self.platform.settings.bootstrap
        fill(bootstrap, self.name, records=self.records)
        self.platform.run(stream_of(self.name))
        statement = STATEMENT.format(name=self.name)
        self.query_id = self.platform.start_query(statement, **{"auto.offset.reset": "earliest"})
        self._wait(self.records)

    def restart(self, _number: int) -> dict[str, float]:
        self.platform.run(f"PAUSE {self.query_id};")
        # The statement is answered before Spark has stopped the query.
        wait_until(
            lambda: self.platform.states().get(self.query_id) == STOPPED,
            f"{self.query_id} has stopped; states are",
            seconds=PATIENCE,
            pause=0.02,
            explain=self.platform.states,
        )
        producer = Producer({"bootstrap.servers": self.platform.settings.bootstrap})
        producer.produce(self.name, event(self.records), key=b"new")
        assert producer.flush(PATIENCE) == 0
        self.records += 1
        before, began = self.platform.cpu(), time.monotonic()
        self.platform.run(f"RESUME {self.query_id};")
        self._wait(self.records)
        seconds = time.monotonic() - began
        return {
            "first new record": seconds,
            "CPU of the pipeline": (self.platform.cpu() - before).total,
        }

    def _wait(self, records: int) -> None:
        end = TopicEnd(self.platform.settings.bootstrap, f"{self.name}_avro")
        wait_until(
            lambda: end.count() >= records,
            f"{records} records have arrived; there are",
            seconds=PATIENCE,
            pause=0.02,
            explain=end.count,
        )
        count = end.count()
        end.close()
        if count > records:
            raise RuntimeError(f"{count} records for {records} events: some are there twice")


def main() -> None:
    command = parser(__doc__, rounds=3, warm_up=0)
    command.add_argument("--records", type=int, default=1_000_000)
    arguments = command.parse_args()
    comparison = Comparison(
        f"restart behind {arguments.records:,} uncommitted records",
        figures=FIGURES,
        claims=(Claim(figure="first new record", of="subject", bound="at most", target=15.0),),
        subject="behind",
    )
    with started_platform(real_time_batch_seconds=BATCH_SECONDS) as platform:
        queries = [
            Query(name="behind", platform=platform, records=arguments.records),
            Query(name="nothing_behind", platform=platform, records=1_000),
        ]
        for query in queries:
            query.begin()
        comparison.run(queries, Query.restart, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
