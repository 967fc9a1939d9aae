"""The connectors of the pipeline process whose storage hangs: what is told, and who waits for whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.assembly.lake_connectors import LakeConnectors
from headrace.connect.state.configs import ConnectorWish
from headrace.connect.state.statuses import Status
from headrace.core.errors import HeadraceError
from headrace.pipeline.spark.background import Background
from headrace.pipeline.spark.turns import Turns
from tests.pipeline.test_background import PATIENCE, Hanging
from tests.pipeline.test_keeper import TOPICS, Query
from tests.running_platform import wait_for


class Statuses:
    """Those of connectors; tasks have the same."""

    def __init__(self) -> None:
        self.told: dict[str, Status] = {}

    def connector(self, name: str) -> Status | None:
        return self.told.get(name)

    def put_connector(self, name: str, status: Status) -> None:
        self.told[name] = status

    def put_task(self, name: str, number: int, status: Status) -> None: ...

    def tasks(self, name: str) -> dict[int, Status]:  # noqa: ARG002 - of the interface
        return {}


class Table(Query):
    """A query into a table, whose run does not end before its storage answers."""

    def __init__(self, name: str, storage: Hanging, events: list[str]) -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self.location = "the table"
        self._storage, self._events = storage, events

    def start(self, topics: Mapping[str, Any]) -> Any:
        self._events.append(f"{self.name} runs")
        running = super().start(topics)
        running.stop = self._stop  # type: ignore[method-assign]
        return running

    def _stop(self) -> None:
        self._storage()
        self._events.append(f"{self.name} has ended")

    def forget(self) -> None:
        self._events.append(f"{self.name} is forgotten")


class Running:
    def __init__(self) -> None:
        self.wishes: dict[str, ConnectorWish] = {}
        self.events: list[str] = []
        self.storages: dict[str, Hanging] = {}
        self.statuses = Statuses()
        self.background = Background(Turns(2, longest_seconds=0.05))
        anything: Any = SimpleNamespace
        self.connectors = LakeConnectors(
            configs=anything(wishes=lambda: dict(self.wishes)),
            statuses=anything(**{name: getattr(self.statuses, name) for name in dir(self.statuses)}),
            runs_here=lambda _: True,
            sink_of=lambda wish: anything(name=wish.name, topics=("in",)),
            make_query=self._query,
            cluster=anything(),
            background=self.background,
            worker_id="here",
            on_status=lambda _: None,
            on_plan=lambda _: None,
            on_gone=lambda _: None,
            wall_clock_ms=lambda: 1,
        )
        self._now = 0.0

    def want(self, name: str, target: Any = "STARTED") -> None:
        self.wishes[name] = ConnectorWish(name=name, config={}, config_version=1, target=target)

    def turn(self) -> None:
        self._now += 1.0
        self.connectors.reconcile(self._now)
        for keeper in self.connectors.keepers:
            keeper.tick(TOPICS, self._now)
        self.connectors.report()

    def until(self, condition: Callable[[], object]) -> None:
        def turned() -> object:
            self.turn()
            return condition()

        wait_for(turned, "it is so", seconds=PATIENCE, pause_seconds=0.01, explain=lambda: str(self.events))

    def _query(self, sink: Any, _topic: str) -> Any:
        storage = self.storages[sink.name] = Hanging()
        return Table(sink.name, storage, self.events)


@pytest.fixture
def running() -> Running:
    begun = Running()
    begun.want("one")
    begun.until(lambda: begun.connectors.keepers and begun.connectors.keepers[0].running)
    assert begun.statuses.told["one"].state == "RUNNING"
    return begun


@pytest.mark.parametrize("target", ["PAUSED", "STOPPED"])
def test_it_is_paused_when_its_run_has_ended(running: Running, target: str) -> None:
    running.want("one", target)
    running.until(running.storages["one"].begun.is_set)
    running.turn()
    assert running.statuses.told["one"].state == "RUNNING"
    running.storages["one"].going.set()
    running.until(lambda: running.statuses.told["one"].state == target)
    assert running.events == ["one runs", "one has ended"]


def test_another_writer_of_the_table_waits_for_the_end_of_the_first(running: Running) -> None:
    del running.wishes["one"]
    running.want("two")
    running.until(running.storages["one"].begun.is_set)
    running.turn()
    assert running.events == ["one runs"]
    running.storages["one"].going.set()
    running.until(lambda: running.connectors.keepers[0].running)
    assert running.events == ["one runs", "one has ended", "one is forgotten", "two runs"]


def test_it_begins_again_where_it_has_ended(running: Running) -> None:
    running.wishes["one"] = dataclasses.replace(running.wishes["one"], config_version=2)
    first = running.storages["one"]
    running.until(first.begun.is_set)
    running.turn()
    assert running.events == ["one runs"]
    first.going.set()
    running.until(lambda: running.connectors.keepers[0].running)
    assert running.events == ["one runs", "one has ended", "one runs"]


def test_a_repair_does_not_wait_for_ever(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.assembly.lake_connectors._STOP_SECONDS", 0.1)
    with pytest.raises(HeadraceError, match="does not end: it waits for the table"):
        running.connectors.stopped("one")
    running.storages["one"].going.set()
    assert running.background.wait_for_all(PATIENCE)
    stopped = running.connectors.stopped("one")
    assert stopped is not None
    assert running.events == ["one runs", "one has ended"]
