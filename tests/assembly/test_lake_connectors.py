"""Connectors in the pipeline process whose queries are held for an order, and queries made for one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.assembly.lake_connectors import LakeConnectors
from headrace.client.cluster import Cluster
from headrace.connect.connectors.lake_sink.parsing import lake_sink_of
from headrace.connect.state.configs import ConfigLog, ConnectorWish, Target
from headrace.connect.state.statuses import StatusLog
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.sink import LakeSink
from headrace.pipeline.sink_tables import letters_of, query_id, table_location
from headrace.pipeline.spark.background import Background
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.turns import Turns


class Connectors:
    """`LakeConnectors` with the given wishes, and queries that nobody starts."""

    def __init__(self, folder: Path) -> None:
        self.wishes: dict[str, ConnectorWish] = {}
        settings = dataclasses.replace(Settings(), data_dir=folder)
        self.told: list[tuple[str, str]] = []

        def make_query(sink: LakeSink, topic: str) -> TableQuery:
            made = SimpleNamespace(
                name=query_id(sink.name, topic),
                location=table_location(sink, topic),
                source_topics=(topic,),
                written_topics=(letters_of(sink, topic),),
                sink=sink,
            )
            return cast(TableQuery, made)

        self.lake = LakeConnectors(
            configs=cast(ConfigLog, SimpleNamespace(wishes=lambda: self.wishes)),
            statuses=cast(StatusLog, SimpleNamespace()),
            runs_here=lambda _: True,
            sink_of=lambda wish: lake_sink_of(wish, settings),
            make_query=make_query,
            cluster=cast(Cluster, SimpleNamespace(topic_names=lambda: ["a-one", "b"])),
            background=Background(Turns(1)),
            worker_id="here",
            on_status=lambda status: self.told.append((status.query, status.state)),
            on_plan=lambda _: None,
            on_gone=lambda _: None,
            wall_clock_ms=lambda: 0,
        )

    def want(self, name: str, target: Target = "STARTED", **config: str) -> None:
        whole: dict[str, Any] = {"connector.class": "headrace.LakeSinkConnector", **config}
        json = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
        wish = ConnectorWish(name=name, config={**json, **whole}, config_version=1, target=target)
        self.wishes[name] = wish

    def kept(self) -> list[str]:
        return sorted(keeper.name for keeper in self.lake.keepers)


@pytest.fixture
def connectors(tmp_path: Path) -> Connectors:
    return Connectors(tmp_path)


def test_a_query_that_is_held_does_not_run_until_it_is_released(connectors: Connectors) -> None:
    connectors.want("x", topics="b")
    connectors.want("y", **{"topics.regex": "a-.*"})
    connectors.lake.reconcile(0.0)
    assert connectors.kept() == ["x.b", "y.a-one"]
    for query in connectors.kept():
        connectors.lake.hold(query)
    assert connectors.told == [("x.b", "STOPPED"), ("y.a-one", "STOPPED")]
    connectors.lake.reconcile(1.0)
    connectors.lake.reconcile(99.0)
    assert connectors.kept() == []
    connectors.lake.release("y.a-one")
    # At once, although expressions are looked at only now and then.
    connectors.lake.reconcile(99.1)
    assert connectors.kept() == ["y.a-one"]
    connectors.lake.release("x.b")
    connectors.lake.reconcile(99.2)
    assert connectors.kept() == ["x.b", "y.a-one"]


def test_orders_get_a_query_of_their_own_whatever_the_target_state_is(connectors: Connectors) -> None:
    connectors.want("x", topics="b", target="STOPPED")
    connectors.lake.reconcile(0.0)
    assert connectors.kept() == []
    first, second = (connectors.lake.new_query("x.b") for _ in range(2))
    assert first is not second
    assert first.location.name == "b"


def test_queries_that_no_connector_has_are_an_error(connectors: Connectors) -> None:
    connectors.want("broken", topics="b", **{"flush.size": "many"})
    connectors.lake.reconcile(0.0)
    with pytest.raises(HeadraceError, match="Connector broken cannot be run"):
        connectors.lake.new_query("broken.b")
    with pytest.raises(
        HeadraceError, match=r"No connector of the pipeline process has the query x\.b"
    ) as error:
        connectors.lake.new_query("x.b")
    assert error.value.code == "connector_not_found"
