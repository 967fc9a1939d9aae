"""Whether the worker says that it is well: not if the log is away, nor if it no longer follows the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from headrace.core.errors import HeadraceError
from headrace.http.connect.app import create_connect_app
from headrace.testing import EmbeddedBroker
from tests.connect.worker_harness import Harness, harness


def health(it: Harness, cluster_id: Any = lambda: "x") -> tuple[int, str]:
    with TestClient(create_connect_app(it.service, it.offsets, cluster_id=cluster_id)) as client:
        answer = client.get("/health")
        return answer.status_code, answer.json()["message"]


def test_a_worker_is_well_while_it_follows_the_log(
    broker: EmbeddedBroker, tmp_path: Path, topic_name: str
) -> None:
    def away() -> str:
        raise HeadraceError("log_unavailable", "no log")

    with harness(broker.bootstrap, tmp_path, topics=topic_name) as it:
        assert health(it)[0] == 200
        assert health(it, away) == (500, "no log")
        it.parts.statuses.stop()
        assert health(it) == (500, "The worker does not read the log of statuses any more.")


def test_a_worker_that_looks_after_nothing_is_not_well(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with harness(broker.bootstrap, tmp_path) as it:
        assert health(it)[0] == 200
        it.worker.stop()
        assert health(it) == (500, "The worker does not look after connectors any more.")
