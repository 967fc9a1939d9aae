"""Many, silent, slow, hostile and vanishing clients, and how questions are stopped."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query.postgres.conftest import Door, opened
from tests.query.postgres.test_incoming import message, startup

ENDLESS = "SELECT count(*) FROM range(100000000000) t(i), range(100) u(j) WHERE hash(i + j) = 3"
_PATIENCE = 20.0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def raw(door: Door) -> socket.socket:
    return socket.create_connection((door.host, door.port), timeout=_PATIENCE)


def read_until(client: socket.socket, ending: bytes) -> bytes:
    data = b""
    while not data.endswith(ending):
        piece = client.recv(65536)
        if not piece:
            break
        data += piece
    return data


READY = message(b"Z", b"I")


def greeted(door: Door) -> socket.socket:
    client = raw(door)
    client.sendall(startup({"user": "x"}))
    assert read_until(client, READY).startswith(b"R")
    return client


def test_encryption_is_declined_and_the_session_goes_on(door: Door) -> None:
    with raw(door) as client:
        for code in (5679, 5680):
            client.sendall(struct.pack(">ihh", 8, 1234, code))
            assert client.recv(1) == b"N"
        client.sendall(startup({"user": "x"}))
        assert read_until(client, READY).endswith(READY)


@pytest.mark.parametrize(
    ("version", "options", "negotiated"),
    [
        ((3 << 16) | 2, {}, b""),
        ((3 << 16) | 9, {}, struct.pack(">ii", (3 << 16) | 2, 0)),
        (3 << 16, {"_pq_.new": "1"}, struct.pack(">ii", 3 << 16, 1) + b"_pq_.new\0"),
    ],
)
def test_versions_are_negotiated(
    door: Door, version: int, options: dict[str, str], negotiated: bytes
) -> None:
    with raw(door) as client:
        client.sendall(startup({"user": "x", **options}, version))
        answer = read_until(client, READY)
    assert answer.startswith(message(b"v", negotiated) if negotiated else b"R")


def test_other_protocols_are_refused(door: Door) -> None:
    for data in (startup({"user": "x"}, 2 << 16), startup({}), b"GET / HTTP/1.1\r\n\r\n"):
        with raw(door) as client:
            client.sendall(data)
            assert b"SFATAL" in read_until(client, b"never")


def test_more_connections_than_allowed_are_refused_and_told_so(lake: Path) -> None:
    with opened(lake, most_connections=2) as door:
        first, second = psycopg.connect(door.conninfo), psycopg.connect(door.conninfo)
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(door.conninfo)
        # A cancel request still gets through, and a place that is free is given away.
        # (`cancel` without `_safe` would hold the interpreter, in which the door runs.)
        first.cancel_safe()
        second.close()
        wait_for(lambda: door.server.sessions == 1)
        psycopg.connect(door.conninfo).close()
        first.close()


def test_a_silent_client_is_dropped_during_startup(lake: Path) -> None:
    with opened(lake, startup_seconds=0.2) as door, raw(door) as silent, raw(door) as slow:
        slow.sendall(startup({"user": "x"})[:-3])
        assert silent.recv(10) == b""
        assert slow.recv(10) == b""
        with psycopg.connect(door.conninfo) as connection:
            # After startup there is no such limit.
            time.sleep(0.4)
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_cancel_request_stops_the_question(door: Door) -> None:
    with psycopg.connect(door.conninfo, autocommit=True) as connection:
        wait_for(lambda: door.engine.running == 0)
        stopper = threading.Thread(
            target=lambda: (wait_for(lambda: door.engine.running == 1), connection.cancel_safe())
        )
        stopper.start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            connection.execute(ENDLESS)
        stopper.join()
        wait_for(lambda: door.engine.running == 0)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_cancel_request_with_a_wrong_key_does_nothing(door: Door) -> None:
    with psycopg.connect(door.conninfo, autocommit=True) as connection:
        process = connection.info.backend_pid
        with raw(door) as stranger:
            stranger.sendall(struct.pack(">ihhi4s", 16, 1234, 5678, process, b"\0\0\0\0"))
            assert stranger.recv(1) == b""
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_client_that_goes_away_stops_its_question(door: Door) -> None:
    before = door.engine.interrupted
    client = greeted(door)
    client.sendall(message(b"Q", ENDLESS.encode() + b"\0"))
    wait_for(lambda: door.engine.running == 1)
    started = time.monotonic()
    client.close()
    wait_for(lambda: door.engine.running == 0)
    assert time.monotonic() - started < 5
    assert door.engine.interrupted == before + 1


def test_a_slow_reader_holds_up_nobody_and_is_dropped(lake: Path) -> None:
    with opened(lake, send_seconds=1.0) as door, greeted(door) as slow:
        slow.sendall(message(b"Q", b"SELECT repeat('x', 500) FROM range(100000)\0"))
        wait_for(lambda: slow.recv(1, socket.MSG_PEEK) == b"T")
        with psycopg.connect(door.conninfo) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        wait_for(lambda: door.server.sessions == 0)


def test_the_server_says_that_it_stops(lake: Path) -> None:
    with opened(lake) as door:
        client = greeted(door)
    assert b"57P01" in read_until(client, b"never")
    client.close()


def test_a_statement_that_is_too_deep_or_too_long_is_an_error(door: Door) -> None:
    with psycopg.connect(door.conninfo, autocommit=True) as connection:
        for statement in (
            "SELECT " + "(SELECT " * 3000 + "1" + ")" * 3000,
            "SELECT " + "NOT " * 20_000 + "true",
            "SELECT 1" + " + 1" * 30_000,
            "SELECT " + "-" * 50 + "1" + "," * 70_000,
            "SELECT '" + "x" * 1_050_000 + "'",
            "SELECT " + "/*" * 100,
            "SELECT " + "CASE WHEN true THEN " * 2000 + "1" + " END" * 2000,
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_message_above_the_limit_ends_its_session_alone(door: Door) -> None:
    with psycopg.connect(door.conninfo) as other:
        with psycopg.connect(door.conninfo) as connection:
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT '" + "x" * 2_000_000 + "'")
            assert connection.closed
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_long_statement_delays_no_others(door: Door) -> None:
    long = "SELECT " + ", ".join(f"{number} / 7 AS c{number}" for number in range(3000))
    slowest = 0.0
    with psycopg.connect(door.conninfo) as one, psycopg.connect(door.conninfo) as other:
        asking = threading.Thread(target=lambda: one.execute(long))
        asking.start()
        while asking.is_alive():
            started = time.monotonic()
            other.execute("SELECT 1")
            slowest = max(slowest, time.monotonic() - started)
        asking.join()
    assert slowest < 5


def test_prepared_statements_and_portals_are_bounded(door: Door) -> None:
    with psycopg.connect(door.conninfo) as connection:
        declare = "; ".join(f"DECLARE c{number} CURSOR FOR SELECT 1" for number in range(20))
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute(declare)
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.binary(max_size=60)
        | st.tuples(
            st.sampled_from([bytes([kind]) for kind in b"BCDEFHPQSXcdfp?"]), st.binary(max_size=40)
        ).map(lambda parts: message(*parts))
        | st.sampled_from([b"SELECT 1\0", b"BEGIN; SELECT nope\0", b"'\0"]).map(
            lambda sql: message(b"Q", sql)
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_no_bytes_end_the_server(door: Door, pieces: list[bytes], started: bool) -> None:
    with greeted(door) if started else raw(door) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass  # The server may end the connection at any time.
    with psycopg.connect(door.conninfo) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
