"""`headrace lake` on a platform that runs: what it shows, and orders that the pipeline carries out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.core.settings import to_environment
from tests.lake_connectors import PLAIN_JSON, Connectors, rows_of
from tests.running_platform import Platform

pytestmark = pytest.mark.long

BY_KIND = {
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "kind",
}


@pytest.fixture
def connectors(platform: Platform) -> Iterator[Connectors]:
    created = Connectors(platform)
    try:
        yield created
    finally:
        created.close()


def lake(platform: Platform, *arguments: str, code: int = 0) -> Any:
    """The answer of `headrace lake … --json`, or the text of the error."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), "lake", *arguments, "--json"],
        env={**os.environ, **to_environment(platform.settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def test_a_table_is_shown_merged_restored_rebuilt_and_vacuumed(
    platform: Platform, connectors: Connectors
) -> None:
    topic = connectors.topic("ordered", partitions=2)
    name = connectors.sink(topic, {**PLAIN_JSON, **BY_KIND})
    folder = connectors.table(topic)
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        values = [{"n": number, "kind": ("even", "odd")[number % 2]} for number in range(sent, sent + count)]
        for number, value in enumerate(values):
            connectors.send(topic, [value], partition=number % 2)
        sent += count

    def numbers(count: int) -> list[int]:
        return sorted(row["n"] for row in connectors.wait_rows(folder, count))

    send(10)
    numbers(10)
    first = DeltaTable(folder).version()
    send(10)
    numbers(20)

    shown = {each["table"]: each for each in lake(platform, "tables")}[topic]
    assert (shown["connector"], shown["state"], shown["topic"]) == (name, "RUNNING", topic)
    assert (shown["rows"], shown["partitions"], shown["behind"]) == (20, 2, 0)
    assert sum(shown["positions"].values()) == 20
    details = lake(platform, "show", topic)
    assert [each["values"] for each in details["partitions"]] == [{"kind": "even"}, {"kind": "odd"}]
    assert {each["operation"] for each in lake(platform, "history", topic)} >= {"WRITE", "CREATE TABLE"}

    # While it runs: two files are left, and the next rows come as usual.
    assert lake(platform, "optimize", topic)["files"] == 2
    send(2)
    numbers(22)

    # Back, and everything is read again.
    answer = lake(platform, "restore", topic, "--version", str(first), "--yes")
    assert "Later rows come back from topic" in answer["message"]
    assert sum(each["end"] - each["first"] for each in answer["read_again"]) == 12
    assert numbers(22) == list(range(22))

    # A stopped connector: the order is carried out, and nothing is read until it goes on.
    connectors.order(name, "stop")
    connectors.wait_state(name, "STOPPED")
    lake(platform, "restore", topic, "--version", str(first), "--yes")
    assert len(rows_of(folder)) == 10
    rebuilt = lake(platform, "rebuild", topic, "--partition", "kind=odd")
    assert rebuilt["rows"] == 5
    assert len(rows_of(folder)) == 10
    connectors.order(name, "resume")
    assert numbers(22) == list(range(22))
    assert lake(platform, "rebuild", topic, "--partition", "kind=even")["rows"] == 11
    assert numbers(22) == list(range(22))

    refused = lake(platform, "vacuum", topic, "--hours", "0", code=2)
    assert "lake_vacuum_hours" in refused
    would = lake(platform, "vacuum", topic, "--hours", "0", "--force", "--dry-run")
    assert would["files_deleted"] > 0
    assert (
        lake(platform, "vacuum", topic, "--hours", "0", "--force")["files_deleted"] >= would["files_deleted"]
    )
    assert "were vacuumed" in lake(platform, "restore", topic, "--version", str(first), "--yes", code=2)
    send(3)
    assert numbers(25) == list(range(25))
    connectors.wait_state(name, "RUNNING")

    assert "has no partition kind=neither" in lake(
        platform, "rebuild", topic, "--partition", "kind=neither", code=2
    )
    assert "no older version 999" in lake(platform, "restore", topic, "--version", "999", "--yes", code=2)
    connectors.delete(name)
    assert f"No connector writes table {topic}" in lake(platform, "optimize", topic, code=2)
