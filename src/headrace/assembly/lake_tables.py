"""The tables of a platform's lake, for commands: those that its connectors write, wherever they are, and
those in the lake's folder that no connector has any more; and orders for them.

Looking needs no running platform: without the log, the folders on this machine are all that is known. Orders
go through the log to the pipeline process (`pipeline/catalogue/lake_orders.py`). Imports no pyspark.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from headrace.assembly.platform_lock import holder
from headrace.assembly.sinks import configured_sinks
from headrace.client.cluster import Cluster
from headrace.connect.state.logs import compacted_log
from headrace.connect.state.statuses import TOPIC as STATUS_TOPIC
from headrace.connect.state.statuses import StatusLog
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.inspecting import TableLook, look_at, tables_below
from headrace.lake.location import Location
from headrace.lake.positions import Offsets
from headrace.lake.sink import LakeSink
from headrace.pipeline.catalogue.lake_orders import LakeOrder, OrderLog
from headrace.pipeline.sink_tables import query_id, table_location, table_name

# The pipeline process gives a sign every few seconds while it carries out an order.
_ORDER_SECONDS: Final = 120.0
_PATIENCE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """`sink`, `topic` and `query` are of the connector that writes it; without one, `sink` is None. `state`
    is that of the connector's task, or of the connector.
    """

    name: str
    location: Location
    sink: LakeSink | None = None
    topic: str = ""
    query: str = ""
    state: str = ""

    @property
    def connector(self) -> str:
        return "" if self.sink is None else self.sink.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The topic of a table as it is now: first offsets and ends of its partitions."""

    topic_id: str = ""
    starts: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table, what it has, and its topic; None if the log or the topic is not there."""

    table: KnownTable
    look: TableLook
    topic: Topic | None = None

    @property
    def behind(self) -> int | None:
        """At most so many records are not read yet: offsets can have holes. None if that is not known."""
        if self.topic is None or not self.look.exists:
            return None
        positions = self.look.positions.of(self.topic.topic_id)
        return sum(
            max(end - max(positions.get(number, 0), self.topic.starts.get(number, 0)), 0)
            for number, end in self.topic.ends.items()
        )


class LakeTables:
    """The tables of one platform. `remark` says why some may be missing; empty if none are."""

    def __init__(self, settings: Settings) -> None:
        """Raises nothing if the log cannot be reached: then the tables are those in the lake's folder."""
        self._settings = settings
        self._cluster: Cluster | None = None
        self.remark = ""
        found: list[KnownTable] = []
        if settings.engine != "external" and holder(settings) is None:
            self.remark = (
                f"No platform is running on {settings.data_dir}: "
                f"only tables in {settings.lake_dir} are known, without their connectors."
            )
        else:
            cluster = Cluster(settings.bootstrap, timeout_seconds=_PATIENCE_SECONDS)
            try:
                found = _of_connectors(settings, cluster)
                self._cluster = cluster
            except HeadraceError as error:
                if error.code != "log_unavailable":
                    raise
                cluster.close()
                self.remark = f"{error.message} Only tables in {settings.lake_dir} are known."
        known = {_place(table) for table in found}
        others = (
            KnownTable(name=name, location=Location.local(settings.lake_dir / name))
            for name in tables_below(settings.lake_dir)
        )
        self.tables = sorted(
            [*found, *(each for each in others if _place(each) not in known)],
            key=lambda each: (each.name, each.connector, str(each.location)),
        )

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def named(self, asked: str) -> KnownTable:
        """By name, by connector and topic (`connector.topic`), or by location. Raises no_such_table, and
        bad_request if there are several.
        """
        found = [each for each in self.tables if asked in (each.query, str(each.location))]
        found = found or [each for each in self.tables if each.name == asked]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(each.query or str(each.location) for each in found)
            raise HeadraceError(
                "bad_request",
                f"{len(found)} tables have the name {asked}.",
                remedy=f"Give one of these instead: {listed}.",
            )
        raise HeadraceError(
            "no_such_table",
            f"There is no table {asked}. {self.remark}".strip(),
            remedy="`headrace lake tables` lists the tables.",
        )

    def see(self, table: KnownTable) -> Seen:
        """Raises log_unavailable."""
        target = self._settings.lake_file_megabytes * 1024 * 1024
        return Seen(table=table, look=look_at(table.location, target_bytes=target), topic=self._topic(table))

    def _topic(self, table: KnownTable) -> Topic | None:
        found = self._cluster.topic(table.topic) if self._cluster is not None and table.topic else None
        if found is None or self._cluster is None:
            return None
        stretches = self._cluster.stretches([found]).get(found.name, {})
        return Topic(
            topic_id=found.topic_id,
            starts={number: first for number, (first, _) in stretches.items()},
            ends={number: end for number, (_, end) in stretches.items()},
        )

    def order(self, order: LakeOrder, *, on_sign: Callable[[str], None]) -> LakeOrder:
        """Have the pipeline process carry it out; the answer. The id and the query are filled in here.

        Raises not_running if there is nobody who could, the error of the order if it fails.
        """
        table = self.named(order.table)
        cluster = self._cluster
        if cluster is None:
            raise HeadraceError(
                "not_running",
                f"{self.remark} Only the pipeline process may change a table.",
                remedy="Start the platform with `headrace up`, then ask again.",
            )
        if table.sink is None:
            raise HeadraceError(
                "connector_not_found",
                f"No connector writes table {table.name} at {table.location}: "
                "the pipeline process does not know it.",
                remedy="Create the connector again (POST /connectors), then ask again.",
            )
        if table.state == "FAILED" and not order.is_dry_run:
            # What failed may be what the order mends; so it is said, not refused.
            on_sign(f"connector {table.connector} is FAILED")
        asked = dataclasses.replace(order, id=uuid.uuid4().hex, query=table.query, table=table.name)
        log = OrderLog(cluster)
        try:
            try:
                log.write(asked)
                (answer,) = log.wait_for([asked], _ORDER_SECONDS, on_sign=lambda each: on_sign(each.message))
            finally:
                log.forget([asked])
        finally:
            log.close()
        if answer.state == "FAILED":
            raise HeadraceError(str(answer.result.get("error", "pipeline_failed")), answer.message)
        return answer


def _place(table: KnownTable) -> str:
    """The same for one folder, however it is written."""
    location = table.location
    return str(location.path.resolve()) if location.is_local else str(location)


def _of_connectors(settings: Settings, cluster: Cluster) -> list[KnownTable]:
    states = _states(settings, cluster)
    found: list[KnownTable] = []
    for sink, topic in configured_sinks(settings, cluster):
        try:
            name = table_name(sink, topic)
        except HeadraceError:
            # Its connector is FAILED with that reason.
            continue
        found.append(
            KnownTable(
                name=name,
                location=table_location(sink, topic),
                sink=sink,
                topic=topic,
                query=query_id(sink.name, topic),
                state=states.get(sink.name, ""),
            )
        )
    return found


def _states(settings: Settings, cluster: Cluster) -> dict[str, str]:
    if cluster.topic(STATUS_TOPIC) is None:
        # Reading would create the topic.
        return {}
    log = StatusLog(compacted_log(settings.bootstrap, STATUS_TOPIC))
    log.start()
    try:
        return {name: state for name in log.names() if (state := _state(log, name))}
    finally:
        log.stop()


def _state(log: StatusLog, name: str) -> str:
    tasks: Iterable[str] = (task.state for task in log.tasks(name).values())
    connector = log.connector(name)
    return next(iter(tasks), connector.state if connector is not None else "")
