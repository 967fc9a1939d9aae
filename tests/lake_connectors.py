"""Connectors into the lake as users have them: created over REST, fed through the log, read by others.

Tests share a platform, so every name is new (`new_name`), and `close` deletes what was created.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headrace.lake.layout import COORDINATE_COLUMNS
from tests.dead_letters.letters import all_records
from tests.running_platform import Platform, wait_for
from tests.s3_server import ACCESS_KEY, REGION, SECRET_KEY

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
AVRO: Final = "io.confluent.connect.avro.AvroConverter"
PLAIN_JSON: Final = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
S3_KEYS: Final = {"aws.access.key.id": ACCESS_KEY, "aws.secret.access.key": SECRET_KEY}
_COORDINATES: Final = frozenset(column.name for column in COORDINATE_COLUMNS) | {"partition"}

Row = dict[str, Any]


def new_name(word: str) -> str:
    """For a topic, a connector or a bucket."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


def s3_options(endpoint: str) -> dict[str, str]:
    """For deltalake."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }


class Connectors:
    """The connectors of one test, and the topics that they read."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._bootstrap = platform.settings.bootstrap
        self._producer = Producer({"bootstrap.servers": self._bootstrap})
        self._created: list[str] = []
        self.url = f"http://{platform.settings.host}:{platform.settings.connect_port}/connectors"

    def close(self) -> None:
        for name in self._created:
            self._platform.http.delete(f"{self.url}/{name}")

    # What a user does.

    def topic(self, word: str, *, partitions: int = 1) -> str:
        """A new topic."""
        name = new_name(word)
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(name, partitions)])[name].result(60)
        return name

    def create(self, name: str, config: Mapping[str, str]) -> str:
        """A lake sink with these settings, unless they name another class."""
        whole = {"connector.class": "headrace.LakeSinkConnector", **config}
        answer = self._platform.http.post(self.url, json={"name": name, "config": whole})
        assert answer.status_code == 201, answer.text
        self._created.append(name)
        return name

    def sink(self, topic: str, config: Mapping[str, str] | None = None) -> str:
        """A connector for one topic, with its name."""
        return self.create(f"{topic}-sink", {"topics": topic, **(config or {})})

    def change(self, name: str, config: Mapping[str, str]) -> None:
        answer = self._platform.http.patch(f"{self.url}/{name}/config", json=dict(config))
        assert answer.status_code == 200, answer.text

    def order(self, name: str, what: str) -> httpx.Response:
        """`pause`, `resume` or `stop`."""
        answer = self._platform.http.put(f"{self.url}/{name}/{what}", json={})
        assert answer.is_success, answer.text
        return answer

    def restart(self, name: str) -> None:
        answer = self._platform.http.post(f"{self.url}/{name}/restart?includeTasks=true", json={})
        assert answer.is_success, answer.text

    def delete(self, name: str) -> None:
        answer = self._platform.http.delete(f"{self.url}/{name}")
        assert answer.status_code == 204, answer.text
        self._created.remove(name)

    # Records.

    def send(self, topic: str, values: Iterable[object], **record: Any) -> None:
        """Bytes, texts and None as they are, everything else as JSON."""
        for value in values:
            is_ready = value is None or isinstance(value, bytes | str)
            self._producer.produce(topic, value if is_ready else json.dumps(value), **record)
        assert self._producer.flush(60) == 0

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id of an Avro schema. Any change is compatible, so that tests can break it."""
        http, registry = self._platform.http, self._platform.registry_url
        content_type = {"content-type": "application/vnd.schemaregistry.v1+json"}
        http.put(f"{registry}/config/{subject}", json={"compatibility": "NONE"}, headers=content_type)
        answer = http.post(
            f"{registry}/subjects/{subject}/versions",
            json={"schema": json.dumps(schema)},
            headers=content_type,
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def avro(
        self,
        topic: str,
        schema: Mapping[str, Any],
        values: Sequence[Any],
        *,
        subject: str = "",
        **record: Any,
    ) -> None:
        """Send values in Confluent's form, with the schema registered."""
        number = self.register(subject or f"{topic}-value", schema)
        self.send(topic, [encoded(number, schema, value) for value in values], **record)

    # What became of them.

    def status(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._platform.http.get(f"{self.url}/{name}/status").json()
        return answer

    def wait_state(self, name: str, state: str, *, seconds: float = 45) -> dict[str, Any]:
        """Until the task is RUNNING, FAILED or PAUSED, or the connector STOPPED; gives the task."""

        def there() -> dict[str, Any] | None:
            status = self.status(name)
            if state == "STOPPED":
                is_stopped = status["connector"]["state"] == state and status["tasks"] == []
                return dict(status["connector"]) if is_stopped else None
            return next((task for task in status["tasks"] if task["state"] == state), None)

        found: dict[str, Any] = wait_for(
            there, f"{name} is {state}", seconds=seconds, explain=lambda: str(self.status(name))
        )
        return found

    def table(self, name: str) -> Path:
        return self._platform.settings.lake_dir / name

    def wait_rows(
        self,
        table: Path | str,
        count: int,
        *,
        options: Mapping[str, str] | None = None,
        seconds: float = 45,
        explain: Callable[[], str] = str,
    ) -> list[Row]:
        """The rows of a table, in the topic's order, once there are so many: never more on the way."""

        def enough() -> list[Row] | None:
            found = rows_of(table, options)
            assert len(found) <= count, found
            return found if len(found) == count else None

        if not count:
            return rows_of(table, options)
        found: list[Row] = wait_for(
            enough,
            f"{table} has {count} rows",
            seconds=seconds,
            pause_seconds=0.3,
            explain=lambda: f"{len(rows_of(table, options))} {explain()}",
        )
        return found

    def letters(self, topic: str, count: int) -> list[Any]:
        """The dead letters of a topic, once there are so many."""
        found: list[Any] = wait_for(
            lambda: sent if len(sent := list(all_records(self._bootstrap, topic))) >= count else None,
            f"{count} dead letters are in {topic}",
            seconds=45,
        )
        assert len(found) == count
        return found


def encoded(number: int, schema: Mapping[str, Any], value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), value)
    return struct.pack(">bI", 0, number) + out.getvalue()


def record_schema(name: str, **fields: Any) -> dict[str, Any]:
    """An Avro record; a field that may be null has a default."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": field, "type": kind} | ({"default": None} if isinstance(kind, list) else {})
            for field, kind in fields.items()
        ],
    }


def open_table(table: Path | str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """None until it exists."""
    try:
        return DeltaTable(str(table), storage_options=dict(options) if options else None)
    except TableNotFoundError:
        return None


def rows_of(table: Path | str, options: Mapping[str, str] | None = None) -> list[Row]:
    """Without the columns that say where a row comes from (one of them is the folder of a table whose sink
    names none), but in that order.
    """
    opened = open_table(table, options)
    if opened is None:
        return []
    found = opened.to_pyarrow_table().sort_by(
        [("_TOPIC_PARTITION", "ascending"), ("_TOPIC_OFFSET", "ascending")]
    )
    return [
        {name: value for name, value in row.items() if name not in _COORDINATES} for row in found.to_pylist()
    ]
