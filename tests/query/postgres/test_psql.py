"""PostgreSQL's own shell through the door, where it is installed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time

import pytest

from tests.query.postgres.conftest import Door

PSQL = shutil.which("psql")
pytestmark = pytest.mark.skipif(PSQL is None, reason="psql is not installed")
_SECONDS = 60


def psql(door: Door, script: str) -> tuple[str, str]:
    """What psql prints for a script, unaligned and without its own settings, and its errors."""
    done = subprocess.run(
        [str(PSQL), "-X", "-A", "-t", "-F", "|", door.conninfo],
        input=script,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.stdout, done.stderr


def test_describing_commands(door: Door) -> None:
    assert psql(door, r"\dt") == ("public|events|table|headrace\npublic|kinds|table|headrace\n", "")
    assert psql(door, r"\d events") == ("EVENT_TYPE|text|||\nSERVER_DATE|text|||\nUSER_ID|text|||\n", "")
    detailed, errors = psql(door, r"\d+ kinds")
    assert errors == ""
    assert "price|numeric(10,2)|||" in detailed
    assert "at|timestamp with time zone|||" in detailed
    databases, errors = psql(door, r"\l")
    assert errors == ""
    assert databases.startswith("headrace|headrace|UTF8|")
    assert psql(door, r"\dn") == ("public|headrace\n", "")
    assert "Did not find any relation" in psql(door, r"\d nope")[1]


@pytest.mark.parametrize(
    "command",
    [r"\d", r"\dt+", r"\l+", r"\dn+", r"\df", r"\df+", r"\dv", r"\di", r"\ds", r"\du", r"\dT", r"\dp", r"\db",
     r"\dx", r"\dd", r"\dC", r"\dD", r"\des", r"\dy", r"\dRp", r"\do", r"\da", r"\dL", r"\dO", r"\dA", r"\dP",
     r"\dX", r"\encoding", r"\conninfo"],
)  # fmt: skip
def test_no_describing_command_fails(door: Door, command: str) -> None:
    _, errors = psql(door, command)
    assert "ERROR" not in errors


def test_rows_in_parts(door: Door) -> None:
    shown, errors = psql(door, "\\set FETCH_COUNT 3\nSELECT user_id FROM events ORDER BY 1;")
    assert errors == ""
    assert shown.split() == sorted([*[f"u{number}" for number in range(5)] * 2, "u1"])


def test_copy_and_errors_with_their_place(door: Door) -> None:
    copied, errors = psql(
        door, "\\copy (SELECT event_type, count(*) FROM events GROUP BY 1 ORDER BY 1) TO STDOUT CSV HEADER"
    )
    assert (copied, errors) == ("EVENT_TYPE,count\nClick,1\nListingView,10\n", "")
    _, errors = psql(door, "SELECT user_id,\n  nope FROM events;")
    assert "LINE 2:   nope FROM events;" in errors
    assert any(line.startswith(" " * 10 + "^") for line in errors.splitlines())


def test_ctrl_c_stops_the_question(door: Door) -> None:
    question = "SELECT count(*) FROM range(100000000000) t(i) WHERE hash(i) = 3"
    shell = subprocess.Popen(
        [str(PSQL), "-X", door.conninfo, "-c", question], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + _SECONDS
    while door.engine.running == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    shell.send_signal(signal.SIGINT)
    _, errors = shell.communicate(timeout=_SECONDS)
    assert "canceling statement due to user request" in errors
    while door.engine.running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
