"""PRINT: the records of a topic as lines of text, in ksqlDB's words."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.reading import TopicReader
from headrace.pipeline.expressions.values import ValueProblemError, shown
from headrace.pipeline.formats import Schemas, avro
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import Print

_NO_DATA: Final = "¯\\_(ツ)_/¯ - no data processed"
_NUMBER_SIZES: Final = {4: "KAFKA_INT", 8: "KAFKA_BIGINT or KAFKA_DOUBLE"}


class PrintedTopic:
    """Lines of records as they arrive. `poll` is for one thread at a time."""

    def __init__(self, statement: Print, cluster: Cluster, schemas: Schemas, ending: threading.Event) -> None:
        """`ending` is set when the service stops: then `poll` waits for no more records."""
        topics = cluster.topics()
        if statement.topic not in topics:
            raise StatementError(
                f"Could not find topic '{statement.topic}', or the KSQL user does not have permissions to "
                "list the topic. Topic names are case-sensitive. "
                f"{did_you_mean(statement.topic, topics)}".strip(),
                statement.at,
            )
        self._statement = statement
        self._schemas = schemas
        self._ending = ending
        self._seen = self._printed = 0
        self._reader = TopicReader(
            cluster.bootstrap,
            statement.topic,
            topics[statement.topic].partitions,
            from_beginning=statement.from_beginning,
        )

    def poll(self, timeout: float) -> list[str] | None:
        """The next lines; None when no more will come."""
        limit = self._statement.limit
        if self._ending.is_set() or (limit is not None and self._printed >= limit):
            return None
        lines: list[str] = []
        for record in self._reader.poll(timeout):
            self._seen += 1
            if (self._seen - 1) % (self._statement.interval or 1):
                continue
            if not self._printed:
                lines.append(f"Key format: {self._format(record.key())}")
                lines.append(f"Value format: {self._format(record.value())}")
            lines.append(self._line(record))
            self._printed += 1
            if self._printed == limit:
                break
        return lines

    def close(self) -> None:
        self._reader.close()

    def _line(self, record: Any) -> str:
        moment = datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
        rowtime = moment.strftime("%Y/%m/%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d} Z"
        key, value = self._text(record.key()), self._text(record.value())
        return f"rowtime: {rowtime}, key: {key}, value: {value}, partition: {record.partition()}"

    def _decoded(self, data: bytes) -> Any:
        try:
            return avro.decoded(data, self._schemas.schema_by_id)
        except ValueProblemError:
            return None

    def _format(self, data: bytes | None) -> str:
        if data is None:
            return _NO_DATA
        if data[:1] == b"\0" and self._decoded(data) is not None:
            return "AVRO"
        text = _printable(data)
        if text is not None and _is_json(text):
            return "JSON or KAFKA_STRING"
        if text is not None:
            return "KAFKA_STRING"
        return _NUMBER_SIZES.get(len(data), "KAFKA_BYTES")

    def _text(self, data: bytes | None) -> str:
        if data is None:
            return "<null>"
        if data[:1] == b"\0" and (content := self._decoded(data)) is not None:
            return json.dumps(shown(content), default=str, ensure_ascii=False)
        text = _printable(data)
        if text is not None:
            return text
        if len(data) in _NUMBER_SIZES:
            return str(int.from_bytes(data, "big", signed=True))
        return data.hex(" ")


def _printable(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character.isspace() for character in text) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
