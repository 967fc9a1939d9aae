"""A QUERY_ID can be used again: files of the query that had it before do not count. Starts no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import StartPositions
from headrace.pipeline.spark.plan_query import PlanQuery
from tests.example_plans import avro_plan


class NoSparkError(Exception):
    pass


class Spark:
    def newSession(self) -> None:  # noqa: N802 - Spark's name
        raise NoSparkError


class NoTopics:
    def lookup(self, _names: list[str]) -> dict[str, object]:
        return {}


class Commits:
    def __init__(self) -> None:
        self.cluster = NoTopics()
        self.begun: list[tuple[str, str]] = []

    def begin(self, query: str, statement: str) -> None:
        self.begun.append((query, statement))


@pytest.fixture
def commits() -> Commits:
    return Commits()


def start(data_dir: Path, commits: Any, statement: str) -> None:
    spark: Any = Spark()
    nothing: Any = None
    query = PlanQuery(
        spark,
        avro_plan("events"),
        Settings(data_dir=data_dir),
        nothing,
        query_id="X",
        commits=commits,
        start=StartPositions(statement=statement),
    )
    topics: Any = dict.fromkeys((*query.source_topics, *query.written_topics))
    with pytest.raises(NoSparkError):
        query.start(topics)


@pytest.mark.parametrize(
    ("former", "present", "is_kept"),
    [("a", "a", True), ("a", "b", False), ("", "b", False), ("", "", True)],
)
def test_files_of_another_statement_are_removed(
    tmp_path: Path, commits: Commits, former: str, present: str, is_kept: bool
) -> None:
    start(tmp_path, commits, former)
    state = tmp_path / "pipeline" / "checkpoints" / "X" / "ids.1-a" / "offsets"
    state.parent.mkdir(parents=True)
    state.touch()
    start(tmp_path, commits, present)
    assert state.exists() is is_kept
    assert commits.begun == [("X", former), ("X", present)]
