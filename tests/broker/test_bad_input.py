"""Random bytes and mutated requests: the broker lives on, keeps its memory, and harms no other connection."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.apis import ALL
from headrace.wire.messages import snake_case
from tests.broker.broker_process import BrokerProcess
from tests.wire.kio_entities import entities, written

# Versions that are advertised for old clients but not served have no class in kio.
SERVED = [
    (api, version)
    for api in ALL.values()
    for version in range(api.versions[0], api.versions[1] + 1)
    if api.serves(version)
]
MOST_GROWTH_BYTES = 60 * 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"))
    process.start()
    try:
        yield process
    finally:
        process.end()


@pytest.fixture(scope="module")
def bystander(broker: BrokerProcess) -> socket.socket:
    """A connection that was there before all others and must not notice them."""
    return connected(broker)


def connected(broker: BrokerProcess) -> socket.socket:
    host, _, port = broker.bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def request(key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + (b"\x00" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def is_well(broker: BrokerProcess, bystander: socket.socket) -> None:
    """The old connection gets its answer, and so does a new one."""
    new = connected(broker)
    for connection in (bystander, new):
        connection.sendall(request(18, 0, b"", flexible=False))
        (size,) = struct.unpack(">i", receive(connection, 4))
        assert receive(connection, size)[:6] == struct.pack(">ih", 7, 0)
    new.close()


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "the broker hung up"
        data += more
    return data


def send_and_listen(broker: BrokerProcess, data: bytes) -> None:
    """Send, say that this was all, and wait until the broker has answered or hung up."""
    with contextlib.closing(connected(broker)) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass


def resident_bytes(broker: BrokerProcess) -> int:
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def cpu_seconds(broker: BrokerProcess) -> float:
    """What the broker has used: a busy machine makes it slower, not more."""
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


relaxed = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@relaxed
@given(data=st.binary(max_size=500))
def test_random_bytes(broker: BrokerProcess, bystander: socket.socket, data: bytes) -> None:
    send_and_listen(broker, data)
    send_and_listen(broker, struct.pack(">i", len(data)) + data)
    is_well(broker, bystander)


@relaxed
@given(
    key=st.integers(-5, 100),
    version=st.integers(-2, 25),
    body=st.binary(max_size=300),
    flexible=st.booleans(),
)
def test_random_bodies_behind_a_right_header(
    broker: BrokerProcess, bystander: socket.socket, *, key: int, version: int, body: bytes, flexible: bool
) -> None:
    send_and_listen(broker, request(key, version, body, flexible=flexible))
    is_well(broker, bystander)


@settings(relaxed, max_examples=400)
@given(data=st.data())
def test_any_request_and_any_mutation_of_it(
    broker: BrokerProcess, bystander: socket.socket, data: st.DataObject
) -> None:
    api, version = data.draw(st.sampled_from(SERVED))
    module = import_module(f"kio.schema.{snake_case(api.name)}.v{version}.request")
    message = data.draw(entities(getattr(module, f"{api.name}Request")))
    whole = request(api.key, version, written(message), flexible=message.__flexible__)
    mutated = bytearray(whole)
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(4, len(whole) - 1), st.integers(0, 255)), max_size=3)
    ):
        mutated[place] = byte
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    send_and_listen(broker, bytes(mutated[:cut]))
    is_well(broker, bystander)


def test_memory_does_not_grow_with_bad_input(broker: BrokerProcess, bystander: socket.socket) -> None:
    chance = random.Random(4)
    # Everything that is loaded or kept once is there after a first round.
    _bombard(broker, chance, 300)
    before = resident_bytes(broker)
    _bombard(broker, chance, 1_500)
    assert resident_bytes(broker) - before < MOST_GROWTH_BYTES
    is_well(broker, bystander)


def test_frames_that_never_end_do_not_cost_what_they_announce(
    broker: BrokerProcess, bystander: socket.socket
) -> None:
    before, seconds_before = resident_bytes(broker), cpu_seconds(broker)
    half_open = [connected(broker) for _ in range(50)]
    for connection in half_open:
        connection.sendall(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
    is_well(broker, bystander)
    assert resident_bytes(broker) - before < MOST_GROWTH_BYTES
    for connection in half_open:
        connection.close()
    is_well(broker, bystander)
    # Making room for what they announce takes seconds.
    assert cpu_seconds(broker) - seconds_before < 0.5


def test_a_producer_beside_all_that_loses_nothing(broker: BrokerProcess) -> None:
    delivered: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
    chance = random.Random(5)
    for number in range(500):
        producer.produce(
            "beside",
            str(number),
            on_delivery=lambda error, message: delivered.append(_offset(error, message)),
        )
        producer.poll(0)
        _bombard(broker, chance, 1)
    assert producer.flush(120) == 0
    assert delivered == list(range(500))


def _offset(error: Any, message: Any) -> int:
    assert error is None, error
    return int(message.offset())


def _bombard(broker: BrokerProcess, chance: random.Random, count: int) -> None:
    for _ in range(count):
        api, version = chance.choice(SERVED)
        body = chance.randbytes(chance.randrange(400))
        send_and_listen(broker, request(api.key, version, body, flexible=api.handler().at(version).flexible))
