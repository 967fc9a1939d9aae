"""What receipts cost: following a derived topic, and everybody who waits.

    python benchmarks/receipts.py [--records 1000000] [--waiters 1000]

1. A derived topic of so many records is read and indexed: records per second, bytes per record in memory. The
   peer is the same read without an index: batches are fetched and decompressed, nothing else.
2. So many clients wait for one event each: how long after the event's record is in the derived topic the
   answer comes (the table's tail included), and how much of a core it takes while nothing happens.

On a log, a table and a query that the benchmark plays itself: Spark's part is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.query.receipts.made_platform import MadePlatform
from tests.query.records import create_topic
from tests.query.tail.written_table import FeedsOfTests

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.query.receipts.followed_origins import read_on
from headrace.query.receipts.origins import OriginIndex, Source
from headrace.query.receipts.watching import in_sql
from headrace.testing import EmbeddedBroker
from headrace.wire.records import payload


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def fill(bootstrap: str, name: str, records: int) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4", "batch.size": 262144}
    )
    for number in range(records):
        headers = [
            ("headrace-source", b"CSAS_EVENTS_AVRO_1/3Zk0c9mDQ8uJ1x5vX0qg5A/0/%d/0" % number),
            ("headrace-rowtime", b"1773480413000"),
            ("headrace-posted-at", b"1773480413000"),
        ]
        while True:
            try:
                producer.produce(name, b"x" * 80, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(120)


def follow(bootstrap: str, records: int) -> None:
    cluster = Cluster(bootstrap)
    create_topic(bootstrap, "derived")
    fill(bootstrap, "derived", records)
    topic = cluster.topic("derived")
    assert topic is not None

    reader = BatchReader(cluster, only_committed=False)
    position, began = 0, time.perf_counter()
    while position < records:
        (found,) = reader.record_sets(topic, {0: position}, wait_ms=0).values()
        for header in found.batches:
            payload(found.content, header)
        position = found.position
    plain = time.perf_counter() - began

    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    index = OriginIndex({0: 0}, most_records=2 * records)
    began = time.perf_counter()
    while index.reached[0] < records:
        read_on(reader, topic, index, index.reached, 0)
    indexed = time.perf_counter() - began
    parts = index._parts[0]
    size = sum(part.offset.nbytes + part.source_offset.nbytes + part.lane.nbytes for part in parts)
    began = time.perf_counter()
    for number in range(0, records, max(records // 200, 1)):
        assert len(index.find(Source("3Zk0c9mDQ8uJ1x5vX0qg5A", 0, number))) == 1
    search = (time.perf_counter() - began) / 200
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    reader.close()
    cluster.close()
    print(f"{records:,} records of a derived topic, lz4, 1 partition")
    print(f"  read and decompressed: {records / plain:,.0f} records/s")
    print(
        f"  read and indexed:      {records / indexed:,.0f} records/s ({indexed / plain:.1f} times as long)"
    )
    print(f"  index: {size / index.records:.0f} bytes a record; the process grew by {grown / 1024:.0f} MB")
    print(f"  a first look for one record: {1000 * search:.2f} ms")


def wait(bootstrap: str, folder: Path, waiters: int) -> None:
    feeds = FeedsOfTests(Cluster(bootstrap))
    broker = type("Broker", (), {"bootstrap": bootstrap})
    platform = MadePlatform(broker, "waited", folder, feeds)  # type: ignore[arg-type]
    try:
        (first,) = platform.post()
        platform.derive([first])
        platform.wait(first, in_sql)
        single: list[float] = []
        for _ in range(50):
            (receipt,) = platform.post()
            answered: list[float] = []

            def ask(receipt: object = receipt, answered: list[float] = answered) -> None:
                platform.wait(receipt, in_sql)  # type: ignore[arg-type]
                answered.append(time.perf_counter())

            thread = threading.Thread(target=ask)
            thread.start()
            while platform.receipts.waited_for == 0:
                time.sleep(0.001)
            time.sleep(0.05)
            platform.derive([receipt])
            written = time.perf_counter()
            thread.join()
            single.append(1000 * (answered[0] - written))
        p50, most = statistics.median(single), max(single)
        print(f"one waits: p50 {p50:.0f} ms, at most {most:.0f} ms after its record, of {len(single)}")

        receipts = platform.post(waiters)

        async def all_wait() -> tuple[float, float]:
            tasks = [
                asyncio.ensure_future(platform.receipts.traces([each], in_sql, seconds=120))
                for each in receipts
            ]
            await asyncio.sleep(3)
            began, used = time.perf_counter(), cpu()
            await asyncio.sleep(5)
            idle = (cpu() - used) / (time.perf_counter() - began)
            await asyncio.to_thread(platform.derive, receipts)
            written = time.perf_counter()
            await asyncio.gather(*tasks)
            return idle, time.perf_counter() - written

        idle, last = asyncio.run(all_wait())
        print(f"{waiters:,} wait: {100 * idle:.0f} % of a core; the last is answered after {last:.2f} s")
    finally:
        platform.close()
        feeds.cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--waiters", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker() as broker:
        follow(broker.bootstrap, given.records)
        wait(broker.bootstrap, Path(folder), given.waiters)


if __name__ == "__main__":
    main()
