"""`connect-standalone` with the acceptance files as they stand, but for the log's address."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from headrace.assembly.standalone_connect import _connector
from headrace.connect.properties import read_properties
from headrace.testing import EmbeddedBroker
from tests.connect_process import lines_of
from tests.gateway_process import eventually
from tests.ports import free_port

ACCEPTANCE = Path(__file__).parent.parent / "acceptance"
FILES = ("connect-standalone.properties", "connect-file-source.properties", "connect-file-sink.properties")
SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path, broker: EmbeddedBroker, topic_name: str) -> Path:
    """The acceptance files, for this test's log, topic, group and port."""
    for name in FILES:
        shutil.copy(ACCEPTANCE / name, tmp_path)
    changes = {
        FILES[0]: {"localhost:9092": broker.bootstrap, "18083": str(free_port())},
        FILES[1]: {"connect-test": topic_name},
        FILES[2]: {"connect-test": topic_name, "local-file-sink": topic_name},
    }
    for name, replaced in changes.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text, encoding="utf-8")
    with (tmp_path / FILES[0]).open("a", encoding="utf-8") as file:
        # The partitions of a killed sink are its own for so long.
        file.write("\nconsumer.session.timeout.ms=6000\n")
    return tmp_path


@contextmanager
def standalone(
    folder: Path, *files: str, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.connect_standalone", *files],
            cwd=folder,
            stdin=stdin,
            stdout=output,
            stderr=output,
            env=os.environ,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_lines_go_from_file_to_file_and_on_after_restarts(folder: Path) -> None:
    (folder / "test.txt").write_text("foo\nbar\n", encoding="utf-8")
    sink = folder / "test.sink.txt"
    with standalone(folder, *FILES) as process:
        eventually(lambda: lines_of(sink) == ["foo", "bar"], "both lines", SECONDS)
        port = urlsplit(read_properties(folder / FILES[0])["listeners"]).port
        listed = httpx.get(f"http://127.0.0.1:{port}/connectors", timeout=SECONDS).json()
        assert "local-file-source" in listed
        foreign = httpx.get(f"http://127.0.0.1:{port}/", headers={"Host": "evil.example"}, timeout=SECONDS)
        assert foreign.status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    assert (folder / "connect.offsets").exists()
    with (folder / "test.txt").open("a", encoding="utf-8") as file:
        file.write("baz\n")
    with standalone(folder, *FILES) as process:
        eventually(lambda: "baz" in lines_of(sink), "the third line", SECONDS)
        assert lines_of(sink) == ["foo", "bar", "baz"]
        process.kill()
        process.wait()
    with (folder / "test.txt").open("a", encoding="utf-8") as file:
        file.write("after a kill\n")
    with standalone(folder, *FILES):
        eventually(lambda: "after a kill" in lines_of(sink), "the fourth line", SECONDS)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (FILES[1], "topic=", "Missing required configuration"),
        (FILES[1], "connector.class=", "contains no connector type"),
        (FILES[0], "bootstrap.servers=", "has no bootstrap.servers"),
        (FILES[0], "listeners=", "not of the form"),
        (FILES[0], "value.converter=", "could not be found"),
    ],
)
def test_what_is_wrong_ends_it_with_the_reason(folder: Path, file: str, change: str, said: str) -> None:
    path = folder / file
    lines = path.read_text(encoding="utf-8").splitlines()
    wrong = {"listeners=": "listeners=https://x", "value.converter=": "value.converter=io.example.Nope"}
    kept = [wrong.get(change, "") if line.startswith(change) else line for line in lines]
    path.write_text("\n".join(kept), encoding="utf-8")
    with standalone(folder, *FILES) as process:
        code = process.wait(SECONDS)
    text = (folder / "output").read_text(encoding="utf-8")
    assert code == 3, text
    assert said in text.splitlines()[-1] or said in text
    assert "Traceback" not in text


def test_without_files_it_uses_standard_input_and_output(folder: Path) -> None:
    for name in FILES[1:]:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not line.startswith("file=")]
        (folder / name).write_text("\n".join(kept), encoding="utf-8")
    with standalone(folder, *FILES, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        eventually(lambda: "typed" in lines_of(folder / "output"), "the line comes back", SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_usage_and_missing_files(tmp_path: Path) -> None:
    with standalone(tmp_path) as process:
        assert process.wait(SECONDS) == 1
    assert "Usage" in (tmp_path / "output").read_text(encoding="utf-8")
    with standalone(tmp_path, "nowhere.properties") as process:
        assert process.wait(SECONDS) == 3
    assert "nowhere.properties" in (tmp_path / "output").read_text(encoding="utf-8")


def test_null_in_a_connector_s_file_is_no_setting(tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_text(
        '{"name": "n", "config": {"topic": "t", "batch.size": null, "rate": 1}}', encoding="utf-8"
    )
    assert _connector(path) == {"name": "n", "topic": "t", "rate": "1"}
