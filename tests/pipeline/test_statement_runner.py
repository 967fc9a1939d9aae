"""Which queries run, by the catalogue and the wishes; nothing here starts Spark."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headrace.core.settings import Settings
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, PersistentQuery, QueryKind, Source
from headrace.pipeline.catalogue.push_wishes import PushWish
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.rules import planning
from headrace.pipeline.rules.planning import plan_source
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.statement_runner import StatementRunner
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateSource
from headrace.pipeline.statements.types import ScalarType

COPY = "CREATE STREAM copy AS SELECT * FROM events;"


class Log:
    """The catalogue as the statement log has it."""

    def __init__(self) -> None:
        (create,) = (
            each
            for each in parse(marketplace.statements("events"))
            if isinstance(each.statement, CreateSource)
        )
        assert isinstance(create.statement, CreateSource)
        events = plan_source(create.statement, Catalogue(), text=create.text)
        self.catalogue = Catalogue(sources={events.name: events})

    def add(self, query_id: str, statement: str, *, sink: str = "COPY", paused: bool = False) -> None:
        query = PersistentQuery(
            id=query_id,
            kind=QueryKind.CREATE_STREAM,
            sink=sink,
            sources=("EVENTS",),
            statement=statement,
            paused=paused,
        )
        copy = dataclasses.replace(self.catalogue.sources["EVENTS"], name=sink, topic=sink)
        self.catalogue = dataclasses.replace(
            self.catalogue,
            sources={**self.catalogue.sources, sink: copy},
            queries={**self.catalogue.queries, query_id: query},
        )

    def remove(self, query_id: str) -> None:
        queries = {name: each for name, each in self.catalogue.queries.items() if name != query_id}
        self.catalogue = dataclasses.replace(self.catalogue, queries=queries)


class Wishes:
    def __init__(self) -> None:
        self.known: dict[str, PushWish] = {}
        self.ended: list[tuple[str, str]] = []

    def poll(self, _timeout: float) -> dict[str, PushWish]:
        return dict(self.known)

    def end(self, wish: PushWish, reason: str) -> None:
        self.ended.append((wish.id, reason))

    def ask(self, name: str, statement: str, alive_until: int = 1) -> None:
        self.known[name] = PushWish(
            id=name, statement=statement, properties=(), topic=f"rows_{name}", alive_until=alive_until
        )


class NoCommits:
    """The commits of queries that never run."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.forgotten: list[str] = []
        # Of queries that were removed while no pipeline was running.
        self.left = {"CSAS_FORMER_1"}

    def forget(self, query: str) -> None:
        self.forgotten.append(query)

    def forget_all_but(self, queries: set[str]) -> set[str]:
        self.kept = queries
        return self.left - queries


@dataclasses.dataclass
class Set:
    log: Log
    wishes: Wishes
    runner: StatementRunner
    said: list[QueryStatus]
    gone: list[str]
    checkpoints: Path
    commits: NoCommits

    def reconciled(self) -> dict[str, QueryKeeper]:
        self.runner.reconcile()
        return {keeper.name: keeper for keeper in self.runner.keepers}


@pytest.fixture
def running(tmp_path: Path) -> Set:
    log, wishes, said, gone = Log(), Wishes(), list[QueryStatus](), list[str]()
    nothing: Any = None
    commits: Any = NoCommits()
    runner = StatementRunner(
        nothing,
        Settings(data_dir=tmp_path),
        statements=log,
        wishes=wishes,
        registry=nothing,
        cluster=nothing,
        commits=commits,
        on_status=said.append,
        wall_clock_ms=lambda: 1,
        on_gone=gone.append,
        other_queries=lambda: frozenset({"events-to-lake"}),
    )
    return Set(log, wishes, runner, said, gone, tmp_path / "pipeline" / "checkpoints", commits)


def test_every_query_of_the_catalogue_has_a_keeper_while_it_is_there(running: Set) -> None:
    running.log.add("CSAS_COPY_1", COPY)
    running.log.add(
        "CSAS_OTHER_2", "CREATE STREAM other AS SELECT user_key, user_id FROM events;", sink="OTHER"
    )
    first = running.reconciled()
    assert first.keys() == {"CSAS_COPY_1", "CSAS_OTHER_2"}
    assert running.reconciled() == first, "what runs and is asked for is left alone"
    assert first["CSAS_COPY_1"].topic_names == ("events", "COPY", "events_dlq")
    running.log.remove("CSAS_COPY_1")
    assert running.reconciled().keys() == {"CSAS_OTHER_2"}
    assert first["CSAS_COPY_1"].state == "STOPPED"


def test_a_paused_query_is_stopped_and_comes_back(running: Set) -> None:
    running.log.add("CSAS_COPY_1", COPY)
    before = running.reconciled()["CSAS_COPY_1"]
    running.log.add("CSAS_COPY_1", COPY, paused=True)
    assert not running.reconciled()
    assert before.state == "STOPPED"
    running.log.add("CSAS_COPY_1", COPY)
    assert running.reconciled()["CSAS_COPY_1"] is not before


def test_a_replaced_statement_replaces_its_query(running: Set) -> None:
    running.log.add("CSAS_COPY_1", COPY)
    before = running.reconciled()["CSAS_COPY_1"]
    running.log.add("CSAS_COPY_1", f"{COPY[:-1]} WHERE user_id = '1';")
    after = running.reconciled()["CSAS_COPY_1"]
    assert after is not before
    assert before.state == "STOPPED"


def test_the_same_words_about_another_source_replace_the_query(running: Set) -> None:
    """CREATE OR REPLACE … SELECT * after ALTER: the words are the same, what they are about is not."""

    def found(events: Source) -> None:
        query = running.log.catalogue.queries["CSAS_COPY_1"]
        queries = {"CSAS_COPY_1": dataclasses.replace(query, found_sources=(events,))}
        running.log.catalogue = dataclasses.replace(running.log.catalogue, queries=queries)

    running.log.add("CSAS_COPY_1", COPY)
    events = running.log.catalogue.sources["EVENTS"]
    found(events)
    before = running.reconciled()["CSAS_COPY_1"]
    more = (*events.value, Column(name="MORE", type=ScalarType.BIGINT))
    running.log.catalogue.sources["EVENTS"] = dataclasses.replace(events, value=more)
    assert running.reconciled()["CSAS_COPY_1"] is before, "what became of its source is not its business"
    found(running.log.catalogue.sources["EVENTS"])
    assert running.reconciled()["CSAS_COPY_1"] is not before


def test_what_cannot_be_planned_is_said_once_and_harms_no_other(running: Set) -> None:
    running.log.add("CSAS_BAD_1", "CREATE STREAM bad AS SELECT nothing FROM events;", sink="BAD")
    running.log.add("CSAS_COPY_2", COPY)
    assert running.reconciled().keys() == {"CSAS_COPY_2"}
    assert running.reconciled().keys() == {"CSAS_COPY_2"}
    failed = [status for status in running.said if status.state == "FAILED"]
    assert [(status.query, "NOTHING" in status.message) for status in failed] == [("CSAS_BAD_1", True)]
    running.log.add("CSAS_BAD_1", "CREATE STREAM bad AS SELECT user_key, user_id FROM events;", sink="BAD")
    assert running.reconciled().keys() == {"CSAS_BAD_1", "CSAS_COPY_2"}


def test_a_push_query_runs_while_somebody_wishes_it(running: Set) -> None:
    running.wishes.ask("w", "SELECT user_id FROM events EMIT CHANGES;")
    first = running.reconciled()["w"]
    assert "rows_w" in first.topic_names
    running.wishes.ask("w", "SELECT user_id FROM events EMIT CHANGES;", alive_until=2)
    assert running.reconciled()["w"] is first, "renewing a wish changes nothing"
    running.wishes.known.clear()
    assert not running.reconciled()
    assert first.state == "STOPPED"


def test_a_push_query_that_cannot_run_is_told_so_and_not_tried_again(running: Set) -> None:
    running.wishes.ask("w", "SELECT nothing FROM events EMIT CHANGES;")
    assert not running.reconciled()
    running.log.add("CSAS_COPY_1", COPY)
    assert running.reconciled().keys() == {"CSAS_COPY_1"}
    ((name, reason),) = running.wishes.ended
    assert name == "w"
    assert "NOTHING" in reason
    assert not [status for status in running.said if status.query == "w"]


def test_where_a_query_was_is_kept_until_it_is_gone_for_good(running: Set) -> None:
    folders = {name: running.checkpoints / name for name in ("CSAS_COPY_1", "w")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    running.log.add("CSAS_COPY_1", COPY)
    running.wishes.ask("w", "SELECT user_id FROM events EMIT CHANGES;")
    running.reconciled()
    running.log.add("CSAS_COPY_1", COPY, paused=True)
    running.reconciled()
    assert folders["CSAS_COPY_1"].exists()
    assert "CSAS_COPY_1" not in running.gone
    running.log.add("CSAS_COPY_1", COPY)
    running.reconciled()
    running.log.remove("CSAS_COPY_1")
    running.wishes.known.clear()
    assert not running.reconciled()
    assert not [name for name, folder in folders.items() if folder.exists()]
    assert running.gone == ["CSAS_FORMER_1", "CSAS_COPY_1"], "not what somebody only listened to"


def test_nothing_is_left_of_a_query_that_is_removed_while_it_does_not_run(running: Set) -> None:
    """Otherwise `/health` would show what became of it for ever."""
    running.log.add("CSAS_PAUSED_1", COPY, paused=True)
    running.log.add("CSAS_LATER_2", COPY)
    running.log.add("CSAS_BAD_3", "CREATE STREAM bad AS SELECT nothing FROM events;")
    running.reconciled()
    assert running.gone == ["CSAS_FORMER_1"]
    assert running.commits.kept == {"CSAS_PAUSED_1", "CSAS_LATER_2", "CSAS_BAD_3", "events-to-lake"}
    running.log.add("CSAS_LATER_2", COPY, paused=True)
    running.reconciled()
    for query in ("CSAS_PAUSED_1", "CSAS_LATER_2", "CSAS_BAD_3"):
        running.log.remove(query)
        running.reconciled()
        assert (running.gone[-1], running.commits.forgotten[-1]) == (query, query)
    assert len(running.gone) == 4


def test_a_removed_query_has_fallen_silent_before_it_is_said_to_be_gone(
    running: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, bool]] = []
    for step in ("fall_silent", "forget"):
        monkeypatch.setattr(
            PlanQuery, step, lambda query, step=step: done.append((step, query.name in running.gone))
        )
    running.log.add("CSAS_COPY_1", COPY)
    running.reconciled()
    running.log.remove("CSAS_COPY_1")
    running.reconciled()
    assert done == [("fall_silent", False), ("forget", False)]
    assert running.gone[-1] == "CSAS_COPY_1"


def test_a_defect_in_planning_one_query_harms_no_other(running: Set, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_query = planning.plan_query

    def broken(statement: Any, catalogue: Catalogue, *, text: str) -> Any:
        if "other" in text:
            raise RuntimeError("a defect")
        return plan_query(statement, catalogue, text=text)

    monkeypatch.setattr(planning, "plan_query", broken)
    running.log.add("CSAS_COPY_1", COPY)
    running.log.add("CSAS_OTHER_2", "CREATE STREAM other AS SELECT * FROM events;", sink="OTHER")
    assert running.reconciled().keys() == {"CSAS_COPY_1"}
    assert [(each.query, "a defect" in each.message) for each in running.said] == [("CSAS_OTHER_2", True)]


def test_a_bad_id_that_an_older_version_accepted_deletes_nothing(running: Set) -> None:
    data_dir = running.checkpoints.parent.parent
    kept = [data_dir / "pipeline" / "file", data_dir / "log_1" / "file"]
    for file in kept:
        file.parent.mkdir(parents=True)
        file.touch()
    into = "INSERT INTO copy WITH (QUERY_ID='../..') SELECT * FROM events;"
    # A name in back-quotes could lead elsewhere, too.
    bad = {"../..": into, "..": COPY, "CSAS_a/../../../log_1": COPY}
    (running.checkpoints / "CSAS_a").mkdir(parents=True)
    for query_id, statement in bad.items():
        running.log.add(query_id, statement)
    assert running.reconciled().keys() == bad.keys() - {"../.."}
    (failed,) = running.said
    assert (failed.query, failed.state) == ("../..", "FAILED")
    assert "QUERY_ID '../..' cannot be the id of a query" in failed.message
    for query_id in bad:
        running.log.remove(query_id)
    assert not running.reconciled()
    assert all(file.exists() for file in kept)
