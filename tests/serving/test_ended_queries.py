"""A statement that ends a query is answered when the pipeline has stopped it, or says that it has not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.serving import service as services
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session

ENDLESS = 1_000_000


class Pipeline:
    """Says of all queries that they run, until it was asked so many times of one that has ended."""

    def __init__(self, log: StatementLog, cluster: Cluster, topic: str) -> None:
        self._log = log
        self._cluster = cluster
        self._topic = topic
        self._known: set[str] = set()
        self.patience = 3
        # Whether the topic was there when it was asked.
        self.looks: list[bool] = []

    def __call__(self) -> list[QueryStatus]:
        queries = self._log.catalogue.queries.keys()
        if self._known - queries:
            self.looks.append(self._cluster.topic(self._topic) is not None)
        if len(self.looks) > self.patience:
            self._known.clear()
        self._known |= queries
        return [
            QueryStatus(query=query, state="RUNNING", mode="", message="", at=1)
            for query in sorted(self._known)
        ]


@pytest.fixture
def topic() -> str:
    return f"O{uuid.uuid4().hex[:12]}".upper()


@pytest.fixture
def pipeline(statement_log: StatementLog, cluster: Cluster, topic: str) -> Pipeline:
    return Pipeline(statement_log, cluster, topic)


@pytest.fixture
def service(
    statement_log: StatementLog, cluster: Cluster, schemas: RegistrySchemas, pipeline: Pipeline, topic: str
) -> StatementService:
    made = StatementService(log=statement_log, cluster=cluster, schemas=schemas, statuses=pipeline)
    run(
        made,
        f"CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='{topic}_S', VALUE_FORMAT='JSON', PARTITIONS=1);"
        f"CREATE STREAM {topic} AS SELECT v FROM s;",
    )
    pipeline()
    return made


def run(service: StatementService, text: str) -> dict[str, Any]:
    return service.execute(text, Session(properties={}))[-1]


def test_a_topic_is_deleted_when_its_query_has_stopped(
    service: StatementService, pipeline: Pipeline, cluster: Cluster, topic: str
) -> None:
    """Otherwise the query would bring it back."""
    answer = run(service, f"DROP STREAM {topic} DELETE TOPIC;")
    assert pipeline.looks == [True] * 4
    assert cluster.topic(topic) is None
    assert answer["warnings"] == []


def test_a_query_that_is_terminated_has_stopped(service: StatementService, pipeline: Pipeline) -> None:
    (query,) = service.log.catalogue.queries
    run(service, f"TERMINATE {query};")
    assert len(pipeline.looks) == 4


def test_a_pipeline_that_does_not_stop_a_query_is_not_waited_for_for_ever(
    service: StatementService, pipeline: Pipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.patience = ENDLESS
    monkeypatch.setattr(services, "_END_SECONDS", 0.2)
    (query,) = service.log.catalogue.queries
    answer = run(service, f"DROP STREAM {topic};")
    (warning,) = answer["warnings"]
    assert f"has not stopped {query} yet" in warning["message"]


def test_a_pause_is_not_an_end(service: StatementService, pipeline: Pipeline) -> None:
    (query,) = service.log.catalogue.queries
    run(service, f"PAUSE {query};")
    assert pipeline.looks == []
