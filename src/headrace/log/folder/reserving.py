"""Reserves offsets for the logs of a data folder, and remembers for which logs it does so.

The log's thread asks for a ticket when a reservation is due (`Reservation.ask_at`), any thread writes it, and
the log's thread hands it back. A log that is idle costs nothing.

Owns the connection between logs and `reservations`. Invariants: everything that a log may show to others is
reserved or was synced before its last clean stop. Byte format and crash behaviour: `reservations`. Who may
call: the data folder; the broker asks for tickets.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.log.filesystem import FileSystem
from headrace.log.folder.reservations import Reservations, ReservedLog
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.recovery import Reserved

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReservationTicket:
    """Reservations that are to be written."""

    reservations: Reservations
    wanted: dict[PartitionLog, tuple[ReservedLog, Reserved]]

    def write(self) -> None:
        """In any thread, but one ticket at a time. Raises OSError, and then nothing is reserved."""
        if self.wanted:
            self.reservations.write(dict(self.wanted.values()))


class OffsetReserving:
    """For one data folder. If it is not `enforced`, it only continues what others have reserved."""

    def __init__(self, filesystem: FileSystem, folder: str, *, enforced: bool) -> None:
        self._reservations: Final = Reservations(filesystem, folder)
        self._enforced: Final = enforced
        self._logs: dict[PartitionLog, ReservedLog] = {}

    def load(self, *, clean: bool) -> None:
        """Read the reservations of the last run; after a clean stop there are none. Raises OSError."""
        self._reservations.load()
        if clean and len(self._reservations):
            # A power loss after the stop has brought them back.
            self._reservations.replace({})

    def known(self, topic_id: uuid.UUID, partition: int) -> Reserved | None:
        """What the last run reserved for a log that is about to be opened."""
        return self._reservations.of(ReservedLog(topic_id, partition))

    def resume(self, topics: Iterable[tuple[uuid.UUID, list[PartitionLog]]], *, synced: bool) -> None:
        """All logs have been opened: continue their reservations. Raises OSError.

        What they have beyond them is reserved before anybody sees it. `synced`: they were synced up to their
        ends.
        """
        kept = {}
        for topic_id, logs in topics:
            self.begin(topic_id, 0, logs)
            for log in () if synced else logs:
                reserved = self._reservations.of(self._logs[log])
                bound = log.end_offset if reserved is None else max(reserved.bound, log.end_offset)
                if self._enforced:
                    log.reservation.enforce(bound, log.end_offset)
                if reserved is not None or (self._enforced and bound > log.flushed_offset):
                    kept[self._logs[log]] = Reserved(bound=bound, leader_epoch=log.leader_epoch)
        if kept or len(self._reservations):
            self._reservations.replace(kept)

    def begin(self, topic_id: uuid.UUID, first: int, logs: Iterable[PartitionLog]) -> None:
        """Reserve for these partitions of a topic from now on; they have no records yet."""
        for partition, log in enumerate(logs, first):
            self._logs[log] = ReservedLog(topic_id, partition)
            if self._enforced and not log.end_offset:
                log.reservation.enforce(0, 0)

    def forget(self, logs: Iterable[PartitionLog]) -> None:
        """These logs were deleted."""
        for log in logs:
            self._reservations.forget(self._logs.pop(log))

    def ask(self, logs: Iterable[PartitionLog], seconds: float) -> ReservationTicket:
        """A ticket that reserves more offsets; `seconds` is a monotonic clock. Deleted logs are left out."""
        wanted = {}
        for log in logs:
            key = self._logs.get(log)
            if key is not None:
                bound = log.reservation.ask(log.end_offset, seconds)
                wanted[log] = key, Reserved(bound=bound, leader_epoch=log.leader_epoch)
        return ReservationTicket(reservations=self._reservations, wanted=wanted)

    def granted(self, ticket: ReservationTicket) -> None:
        """Take over a ticket that was written."""
        for log, (_key, reserved) in ticket.wanted.items():
            log.reservation.grant(reserved.bound)

    def withdraw(self) -> None:
        """After a clean stop nothing can be lost. If this fails, the next start does it."""
        try:
            self._reservations.clear()
        except OSError as error:
            _log.warning("the reserved offsets cannot be removed: %s", error)
