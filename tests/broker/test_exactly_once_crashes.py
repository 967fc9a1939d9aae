"""Consume, transform, produce in transactions, with SIGKILL for clients and broker at random moments.

Each input is in the output exactly once for who reads committed records, what was aborted is never seen, and
no transaction stays open longer than its timeout. See `exactly_once_worker.py` for the client.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.broker_process import BrokerProcess
from tests.broker.exactly_once_worker import ABORTED, INPUT, OUTPUT, QUICK
from tests.conformance.raw_client import ConnectionClosedError, RawClient
from tests.conformance.transactional_clients import ALL, COMMITTED, read_with_librdkafka
from tests.ports import free_port

PARTITIONS = 3
WORKERS = 2
RECORDS_A_ROUND = 150
LIST_OFFSETS, LIST_TRANSACTIONS = 2, 66
PATIENCE_SECONDS = 90.0


class Workers:
    """Processes that are started again when they end. `stop` leaves none behind."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._bootstrap = bootstrap
        self._chance = chance
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.keep_up()

    def keep_up(self) -> None:
        """Start those that do not run."""
        for number in range(WORKERS):
            process = self._processes.get(number)
            if process is None or process.poll() is not None:
                self._processes[number] = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "tests.broker.exactly_once_worker"),
                        *(self._bootstrap, str(number), str(self._chance.randrange(2**32))),
                    ],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )

    def kill(self, number: int) -> None:
        process = self._processes[number]
        process.kill()
        process.wait()

    def stop(self) -> None:
        for number in self._processes:
            self.kill(number)


def write_input(bootstrap: str, round_number: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True} | QUICK)
    values = [b"%d.%d" % (round_number, number) for number in range(RECORDS_A_ROUND)]
    for number, value in enumerate(values):
        producer.produce(INPUT, value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


def leave_open(bootstrap: str, round_number: int) -> None:
    """A transaction whose producer never comes back."""
    settings = {"transactional.id": f"abandoned-{round_number}", "transaction.timeout.ms": 2_000}
    producer = Producer({"bootstrap.servers": bootstrap} | settings | QUICK)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(OUTPUT, ABORTED, partition=round_number % PARTITIONS)
    assert producer.flush(60) == 0


def output(bootstrap: str, level: str) -> list[bytes]:
    return [
        value
        for partition in range(PARTITIONS)
        for value in read_with_librdkafka(bootstrap, OUTPUT, level, partition)
    ]


def end_offsets(client: RawClient, level: int) -> list[int]:
    partitions = [
        {"partition_index": each, "timestamp": -1, "current_leader_epoch": -1} for each in range(PARTITIONS)
    ]
    topics = [{"name": OUTPUT, "partitions": partitions}]
    reply = client.ask(LIST_OFFSETS, 7, replica_id=-1, isolation_level=level, topics=topics)
    return [each.offset for each in reply.topics[0].partitions]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def check(bootstrap: str, written: list[bytes]) -> None:
    """Exactly once, and nothing that was aborted."""
    seen = output(bootstrap, COMMITTED)
    assert not [value for value in seen if value.startswith(ABORTED)], "aborted records are seen"
    copied = Counter(value.split(b":")[2] for value in seen)
    assert not {value: count for value, count in copied.items() if count > 1}, "copied more than once"
    assert set(copied) == set(written), "not copied"


def run_rounds(folder: Path, rounds: int, *, fsync: str, seed: int) -> int:
    chance = random.Random(seed)
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    arguments = [
        *("--fsync", fsync, "--set", "log.segment.bytes=1048576"),
        *("--set", "group.initial.rebalance.delay.ms=0"),
    ]
    broker = BrokerProcess(folder, port, arguments)
    workers: Workers | None = None
    written: list[bytes] = []
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (INPUT, OUTPUT)]).values():
            made.result(120)
        workers = Workers(bootstrap, chance)
        for number in range(rounds):
            written += write_input(bootstrap, number)
            if number % 3 == 0:
                leave_open(bootstrap, number)
            time.sleep(chance.uniform(0.2, 1.2))
            victims = chance.choice(("a worker", "broker", "broker and worker"))
            if "worker" in victims:
                workers.kill(chance.randrange(WORKERS))
            if "broker" in victims:
                broker.kill()
                broker.start()
            workers.keep_up()
        keep_up = workers.keep_up

        def all_copied() -> bool:
            keep_up()
            with RawClient(("127.0.0.1", port)) as client:
                if sum(end_offsets(client, 1)) < len(written):
                    return False
            return len(output(bootstrap, COMMITTED)) >= len(written)

        wait_for(all_copied, "not everything was copied in time")
        workers.stop()
        wait_for(lambda: all_decided(port), "a transaction hangs")
        check(bootstrap, written)
        # What the log says must not depend on the process that says it.
        broker.kill()
        broker.start()
        check(bootstrap, written)
        return len(output(bootstrap, ALL)) - len(written)
    finally:
        if workers is not None:
            workers.stop()
        broker.end()


def all_decided(port: int) -> bool:
    """No transaction is open: neither its coordinator nor its partitions wait for an end."""
    try:
        with RawClient(("127.0.0.1", port)) as client:
            states = ["Ongoing", "PrepareCommit", "PrepareAbort"]
            reply = client.ask(LIST_TRANSACTIONS, 0, state_filters=states, producer_id_filters=[])
            nothing_open = reply.error_code == 0 and not reply.transaction_states
            return nothing_open and end_offsets(client, 0) == end_offsets(client, 1)
    except ConnectionClosedError:
        return False


def test_each_input_is_in_the_output_once(tmp_path: Path) -> None:
    run_rounds(tmp_path, 3, fsync="os", seed=random.randrange(2**32))


@pytest.mark.long
@pytest.mark.parametrize("fsync", ["os", "always"])
def test_each_input_is_in_the_output_once_in_fifty_rounds(tmp_path: Path, fsync: str) -> None:
    # Some of what was written was aborted, or the test has not tested much.
    assert run_rounds(tmp_path, 50, fsync=fsync, seed=random.randrange(2**32)) > 0
