"""Transactions over crashes: in every state, over a SIGKILL and with every promise about the disk.

A transaction that is open when the broker dies goes on after it, is aborted by the next producer of its id or
runs out of time; one whose end was decided is brought to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.settings import FsyncPolicy
from tests.broker.broker_process import BrokerProcess
from tests.broker.served_broker import PRODUCE, ServedBroker, served
from tests.broker.transactional_client import (
    ALL,
    COMMITTED,
    TransactionalClient,
    committed_offset,
    latest,
)
from tests.conformance.raw_client import RawClient, plain

TOPIC = "records"
FSYNC = pytest.mark.parametrize("fsync", ["os", "always"])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is tried again soon."""
    monkeypatch.setattr("headrace.broker.coordinators.transactions.RETRY_SECONDS", 0.1)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def begun(broker: ServedBroker, **options: Any) -> TransactionalClient:
    client = TransactionalClient(broker)
    # While the coordinator loads, clients are told to come again.
    wait_for(lambda: client.init(**options) == "none")
    return client


def moved(client: TransactionalClient, broker: ServedBroker) -> TransactionalClient:
    """The same producer with another connection."""
    client._broker = broker
    wait_for(lambda: client.described()["error_code"] == "none")
    return client


@FSYNC
def test_an_id_without_a_transaction(tmp_path: Path, fsync: FsyncPolicy) -> None:
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC)
        client = begun(broker)
        broker.kill()
    with served(tmp_path, fsync) as broker:
        moved(client, broker)
        assert client.state() == "Empty"
        assert client.send(TOPIC) == "none"
        assert client.end() == "none"
        producer_id, epoch = client.producer_id, client.epoch
        assert client.init() == "none"
        assert (client.producer_id, client.epoch) == (producer_id, epoch + 1)


@FSYNC
@pytest.mark.parametrize("committed", [True, False])
def test_an_open_transaction_goes_on(tmp_path: Path, fsync: FsyncPolicy, committed: bool) -> None:
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC, partitions=2)
        client = begun(broker)
        assert client.send(TOPIC) == "none"
        assert client.commit_offsets(TOPIC, "readers") == ["none"]
        broker.kill()
    with served(tmp_path, fsync) as broker:
        moved(client, broker)
        assert client.state() == "Ongoing"
        assert (latest(broker, TOPIC, ALL), latest(broker, TOPIC, COMMITTED)) == (1, 0)
        assert committed_offset(broker, TOPIC, "readers") == ("unstable_offset_commit", -1)
        assert client.send(TOPIC) == "none"
        assert client.send(TOPIC, 1) == "none"
        assert client.end(committed=committed) == "none"
        assert latest(broker, TOPIC, COMMITTED) == 3
        assert latest(broker, TOPIC, COMMITTED, 1) == 2
        assert committed_offset(broker, TOPIC, "readers") == ("none", 42 if committed else -1)


def test_an_open_transaction_is_aborted_by_the_next_producer(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        broker.create(TOPIC)
        fenced = begun(broker)
        assert fenced.send(TOPIC) == "none"
        broker.kill()
    with served(tmp_path) as broker:
        client = begun(broker)
        assert latest(broker, TOPIC, COMMITTED) == 2
        moved(fenced, broker)
        assert fenced.send(TOPIC) == "invalid_producer_epoch"
        assert fenced.end() == "producer_fenced"
        assert client.send(TOPIC) == "none"


@FSYNC
def test_an_open_transaction_runs_out_of_time(tmp_path: Path, fsync: FsyncPolicy) -> None:
    """Its timer goes on where it was, whoever was killed meanwhile."""
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC)
        client = begun(broker, timeout_ms=2_000)
        assert client.send(TOPIC) == "none"
        broker.kill()
    with served(tmp_path, fsync) as broker:
        wait_for(lambda: latest(broker, TOPIC, COMMITTED) == 2)
        moved(client, broker)
        wait_for(lambda: client.state() == "CompleteAbort")
        assert client.end() in {"producer_fenced", "invalid_txn_state"}
        assert client.init() == "none"
        assert client.send(TOPIC) == "none"
        assert client.end() == "none"
        assert latest(broker, TOPIC, COMMITTED) == 4


@FSYNC
@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_transaction_is_brought_to_its_end(
    tmp_path: Path, fsync: FsyncPolicy, committed: bool
) -> None:
    """The broker dies between the decision and the markers."""
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC, partitions=2)
        client = begun(broker)
        assert client.send(TOPIC) == "none"
        assert client.send(TOPIC, 1) == "none"
        assert client.commit_offsets(TOPIC, "readers") == ["none"]
        broker.do(lambda inner: setattr(inner.transactions.markers, "write", lambda *_, **__: None))
        epoch = client.epoch
        assert client.end(committed=committed) == "none"
        assert client.state() == ("PrepareCommit" if committed else "PrepareAbort")
        assert latest(broker, TOPIC, COMMITTED) == 0
        broker.kill()
    with served(tmp_path, fsync) as broker:
        moved(client, broker)
        wait_for(lambda: client.state() == ("CompleteCommit" if committed else "CompleteAbort"))
        assert client.epoch == epoch + 1
        for partition in range(2):
            assert latest(broker, TOPIC, COMMITTED, partition) == 2
        assert committed_offset(broker, TOPIC, "readers") == ("none", 42 if committed else -1)
        assert client.send(TOPIC) == "none"
        assert client.end() == "none"


@FSYNC
def test_markers_that_were_written_but_not_noted(tmp_path: Path, fsync: FsyncPolicy) -> None:
    """The broker dies between the markers and the note that all are there: they are written again."""
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC)
        client = begun(broker)
        assert client.send(TOPIC) == "none"

        def write_without_saying(inner: Any) -> None:
            write = inner.transactions.markers.write

            def writing(*arguments: Any, **fields: Any) -> None:
                write(*arguments, **fields)

            inner.transactions.markers.write = writing

        broker.do(write_without_saying)
        assert client.end() == "none"
        assert client.state() == "PrepareCommit"
        broker.kill()
    with served(tmp_path, fsync) as broker:
        moved(client, broker)
        wait_for(lambda: client.state() == "CompleteCommit")
        assert latest(broker, TOPIC, COMMITTED) == latest(broker, TOPIC, ALL)
        assert client.send(TOPIC) == "none"
        assert client.end(committed=False) == "none"
        assert latest(broker, TOPIC, COMMITTED) == latest(broker, TOPIC, ALL)


@FSYNC
def test_an_ended_transaction_stays_ended(tmp_path: Path, fsync: FsyncPolicy) -> None:
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC)
        client = begun(broker)
        assert client.send(TOPIC) == "none"
        ended = client.identity
        assert client.end() == "none"
        broker.kill()
    with served(tmp_path, fsync) as broker:
        moved(client, broker)
        assert client.state() == "CompleteCommit"
        assert latest(broker, TOPIC, COMMITTED) == 2
        # The answer was lost, say: the repetition gets it again.
        assert client.end(**ended) == "none"
        assert client.end(committed=False, **ended) == "invalid_txn_state"
        assert latest(broker, TOPIC, COMMITTED) == 2


class KilledBroker:
    """A broker process as `ServedBroker` is one, as far as `TransactionalClient` needs it."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        host, _, port = self._process.bootstrap.rpartition(":")
        with RawClient((host, int(port))) as client:
            return plain(client.ask(api_key, version, **fields))

    def do(self, _work: Callable[[Any], Any]) -> Any:
        return time.time_ns() // 1_000_000


def test_transactions_over_sigkill(broker_process: BrokerProcess) -> None:
    """All states at once, each with an id of its own."""
    broker: Any = KilledBroker(broker_process)
    made = broker.ask(
        19, 7, topics=[{"name": TOPIC, "num_partitions": 4, "replication_factor": 1}], timeout=10_000
    )
    assert made["topics"][0]["error_code"] == "none"
    clients = {
        name: TransactionalClient(broker, name) for name in ("empty", "open", "timed", "committed", "aborted")
    }
    for partition, (name, client) in enumerate(clients.items()):
        assert client.init(timeout_ms=1_500 if name == "timed" else 60_000) == "none"
        if name != "empty":
            assert client.send(TOPIC, partition - 1) == "none"
    assert clients["committed"].end() == "none"
    assert clients["aborted"].end(committed=False) == "none"
    broker_process.kill()
    broker_process.start()
    wait_for(lambda: clients["empty"].described()["error_code"] == "none")
    states = {name: client.state() for name, client in clients.items() if name != "timed"}
    assert states == {
        "empty": "Empty",
        "open": "Ongoing",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
    }
    wait_for(lambda: clients["timed"].state() == "CompleteAbort")
    assert clients["open"].end() == "none"
    for partition, name in enumerate(("open", "timed", "committed", "aborted")):
        end = latest(broker, TOPIC, ALL, partition)
        assert latest(broker, TOPIC, COMMITTED, partition) == end
        # EndTxn is answered before the marker is written: if the kill comes between the marker and the note
        # that it is there, it is written once more.
        assert end in ((2, 3) if name in ("committed", "aborted") else (2,))
    assert clients["empty"].send(TOPIC, 0) == "none"
    assert clients["empty"].end() == "none"


def test_requests_do_not_overtake_one_that_waits_for_the_coordinator(tmp_path: Path) -> None:
    """With fsync=always the first records of a transaction wait for the record that adds their partition."""
    with served(tmp_path, "always") as broker:
        broker.create(TOPIC)
        client = begun(broker)
        with RawClient(("127.0.0.1", broker.port)) as raw:
            for _ in range(3):
                for _ in range(5):
                    raw.send(PRODUCE, 12, **client.produce_fields(TOPIC, client.records(TOPIC)))
                answers = [plain(raw.receive(PRODUCE, 12)) for _ in range(5)]
                found = [each["responses"][0]["partition_responses"][0] for each in answers]
                assert [each["error_code"] for each in found] == ["none"] * 5
                offsets = [each["base_offset"] for each in found]
                assert offsets == sorted(offsets)
                assert client.end() == "none"
        assert latest(broker, TOPIC, COMMITTED) == 18


@FSYNC
def test_the_next_transaction_waits_for_the_end_of_the_one_before(tmp_path: Path, fsync: FsyncPolicy) -> None:
    """CONCURRENT_TRANSACTIONS, until the markers of the one before are written at last."""
    with served(tmp_path, fsync) as broker:
        broker.create(TOPIC)
        client = begun(broker)
        assert client.send(TOPIC) == "none"
        broker.do(lambda inner: setattr(inner.transactions.markers, "write", lambda *_, **__: None))
        assert client.end() == "none"
        assert client.send(TOPIC) == "concurrent_transactions"
        broker.do(lambda inner: delattr(inner.transactions.markers, "write"))
        client._sequences.clear()
        wait_for(lambda: client.send(TOPIC, base_sequence=0) == "none")
        assert client.end() == "none"
        assert latest(broker, TOPIC, COMMITTED) == latest(broker, TOPIC, ALL) == 4
