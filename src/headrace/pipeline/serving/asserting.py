"""ASSERT TOPIC and ASSERT SCHEMA: wait until the assertion holds, or report what does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from headrace.client.cluster import Cluster
from headrace.pipeline.formats import Schemas
from headrace.pipeline.serving.entities import Entity, entity
from headrace.pipeline.serving.errors import ASSERTION_FAILED, StatementFailedError
from headrace.pipeline.statements.expressions import IntegerLiteral
from headrace.pipeline.statements.queries import Duration
from headrace.pipeline.statements.tree import AssertSchema, AssertTopic

_DEFAULT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05


def assert_topic(statement: AssertTopic, cluster: Cluster, text: str) -> Entity:
    def problem() -> str | None:
        topic = cluster.topic(statement.topic)
        if not statement.exists:
            return f"Topic {statement.topic} exists" if topic is not None else None
        if topic is None:
            return f"Topic {statement.topic} does not exist"
        found = {
            "PARTITIONS": topic.partitions,
            "REPLICAS": topic.replicas[0] if topic.replicas else 0,
        }
        wrong = [
            f"For config {given.name.lower()}, expected {given.value.value} got {found[given.name.upper()]}"
            for given in statement.properties
            if given.name.upper() in found
            and isinstance(given.value, IntegerLiteral)
            and given.value.value != found[given.name.upper()]
        ]
        return f"Mismatched configuration for topic {statement.topic}: {'; '.join(wrong)}" if wrong else None

    _wait(problem, statement.timeout, text)
    return entity("assert_topic", text, topicName=statement.topic, exists=statement.exists)


def assert_schema(statement: AssertSchema, schemas: Schemas, text: str) -> Entity:
    named = "".join(
        part
        for part in (
            f" subject name {statement.subject}" if statement.subject is not None else "",
            f" id {statement.schema_id}" if statement.schema_id is not None else "",
        )
    )

    def problem() -> str | None:
        if statement.subject is not None:
            known = schemas.schemas_of(statement.subject)
            there = bool(known) and (statement.schema_id is None or statement.schema_id in known)
        else:
            there = statement.schema_id is not None and schemas.schema_by_id(statement.schema_id) is not None
        if there == statement.exists:
            return None
        return f"Schema with{named} {'exists' if there else 'does not exist'}"

    _wait(problem, statement.timeout, text)
    return entity(
        "assert_schema", text, subject=statement.subject, id=statement.schema_id, exists=statement.exists
    )


def _wait(problem: Callable[[], str | None], timeout: Duration | None, text: str) -> None:
    seconds = timeout.milliseconds / 1000 if timeout is not None else _DEFAULT_SECONDS
    deadline = time.monotonic() + seconds
    while (found := problem()) is not None:
        if time.monotonic() >= deadline:
            raise StatementFailedError(found, code=ASSERTION_FAILED, statement=text)
        time.sleep(_LOOK_SECONDS)
