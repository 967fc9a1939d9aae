"""Shows and changes how far connectors have come: source offsets in the log, a sink's in its consumer group.

Invariants: offsets change only while the connector is stopped, and nobody can start it meanwhile; a change of
several is checked as a whole before the first is written, and if the log refuses it nevertheless, a sink's
group has the offsets of before. Never touches the offsets of a connector whose plugin keeps them elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.group_offsets import GroupOffsets
from headrace.client.topics import Partition
from headrace.connect.plugins import Plugin
from headrace.connect.service import ConnectService
from headrace.connect.state.configs import ConnectorWish
from headrace.connect.worker.sink_runner import group_of
from headrace.core.errors import HeadraceError

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"
# What a client wants: partition and offset, either of which may be missing.
Wanted = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
_MOST_PARTITIONS: Final = 2**31

_log = logging.getLogger(__name__)


class OffsetChanges:
    """All methods may be called from any thread; all may block. Raise connector_not_found, others."""

    def __init__(self, service: ConnectService) -> None:
        self._service = service
        self._groups = GroupOffsets(service.parts.bootstrap)
        self._cluster = Cluster(service.parts.bootstrap)

    def shown(self, name: str) -> list[dict[str, Any]]:
        wish = self._service.wish(name)
        plugin = self._service.plugin_of(wish)
        if plugin is None or plugin.kind == "source":
            found = self._service.parts.offsets.offsets(name)
            return [{"partition": dict(place), "offset": dict(offset)} for place, offset in found]
        return [
            {
                "partition": {"kafka_partition": number, "kafka_topic": topic},
                "offset": {"kafka_offset": offset},
            }
            for (topic, number), offset in sorted(self._groups.committed(group_of(name)).items())
        ]

    def alter(self, name: str, wanted: Sequence[Wanted]) -> str:
        """Raises connector_invalid as well."""
        with self._stopped(name) as (wish, plugin):
            if not wanted:
                raise _invalid("Partitions / offsets need to be provided for an alter offsets request")
            if plugin.kind == "source":
                self._alter_source(name, plugin, wanted)
            else:
                self._alter_sink(wish, wanted)
        return ALTERED

    def reset(self, name: str) -> str:
        """Back to the beginning."""
        with self._stopped(name) as (_, plugin):
            if plugin.kind == "source":
                for partition, _ in self._service.parts.offsets.offsets(name):
                    self._service.parts.offsets.put(name, partition, None)
            else:
                self._groups.delete(group_of(name))
        return RESET

    @contextmanager
    def _stopped(self, name: str) -> Iterator[tuple[ConnectorWish, Plugin]]:
        """A connector that has stopped and stays so."""
        wish = self._service.wish(name)
        if wish.target != "STOPPED":
            raise _invalid(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
                f"done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint"
            )
        plugin = self._service.plugin_of(wish)
        if plugin is None or (plugin.kind == "sink" and not plugin.offsets_in_group):
            raise _invalid(
                f"The offsets of {name} are kept by the connector itself and cannot be changed here."
            )
        if not self._service.wait_stopped(wish):
            raise HeadraceError(
                "connector_busy", f"The tasks of {name} have not stopped yet; try again in a moment."
            )
        with self._service.unchanged(wish):
            yield wish, plugin

    def _alter_source(self, name: str, plugin: Plugin, wanted: Sequence[Wanted]) -> None:
        for partition, offset in wanted:
            wrong = plugin.check_offset(partition, offset) if partition is not None else ""
            if wrong:
                raise _invalid(wrong)
        for partition, offset in wanted:
            if partition is not None:
                self._service.parts.offsets.put(name, partition, offset)

    def _alter_sink(self, wish: ConnectorWish, wanted: Sequence[Wanted]) -> None:
        changes = dict(_group_offset(partition, offset) for partition, offset in wanted)
        group = group_of(wish.name)
        gone = {place for place, offset in changes.items() if offset is None}
        new = {place: offset for place, offset in changes.items() if offset is not None}
        before = self._groups.committed(group) if gone else {}
        there = self._cluster.lookup({topic for topic, _ in (*new, *before)})
        partitions = {name: topic.partitions for name, topic in there.items()}
        for topic, number in new:
            if number >= partitions.get(topic, 0):
                # As the log would answer, but before anything is removed.
                raise HeadraceError(
                    "query_failed",
                    f"The offsets of {wish.name} were not changed: there is no partition {number} of the "
                    f"topic {topic!r}.",
                )
        if not gone:
            self._groups.set(group, new)
            return
        # The client cannot remove single offsets, so the rest is written again.
        before = {place: offset for place, offset in before.items() if place[1] < partitions.get(place[0], 0)}
        kept = {**{place: before[place] for place in before.keys() - gone}, **new}
        self._groups.delete(group)
        try:
            if kept:
                self._groups.set(group, kept)
        except BaseException:
            self._put_back(group, before)
            raise

    def _put_back(self, group: str, before: Mapping[Partition, int]) -> None:
        try:
            if before:
                self._groups.set(group, before)
        except HeadraceError as error:
            _log.error("the offsets of group %s are gone: %s; they were %s", group, error, dict(before))


def _group_offset(
    partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
) -> tuple[Partition, int | None]:
    if partition is None:
        raise _invalid("The partition for a sink connector offset cannot be null or missing")
    if not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise _invalid(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' "
            "and 'kafka_partition'"
        )
    number = _whole_number(
        partition["kafka_partition"],
        "Failed to parse the following Kafka partition value in the provided offsets: '{}'. "
        "Partition values for sink connectors need to be integers.",
    )
    if number >= _MOST_PARTITIONS:
        raise _invalid(f"There is no Kafka partition {number}: Kafka counts them with 32 bits.")
    place = (str(partition["kafka_topic"]), number)
    if offset is None:
        return place, None
    if "kafka_offset" not in offset:
        raise _invalid(
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    return place, _whole_number(
        offset["kafka_offset"],
        "Failed to parse the following Kafka offset value in the provided offsets: '{}'. "
        "Offset values for sink connectors need to be integers.",
    )


def _whole_number(value: Any, message: str) -> int:
    try:
        number = int(str(value))
    except ValueError as error:
        raise _invalid(message.format(value)) from error
    if not 0 <= number < 2**63:
        raise _invalid(message.format(value))
    return number


def _invalid(message: str) -> HeadraceError:
    return HeadraceError("connector_invalid", message)
