"""Repairs as wishes (`wishes.py`): how the pipeline process learns which records are to be read again.

`headrace reconcile --repair` writes them to the topic `_repairs`. What is done may be asked for again: a
repair first looks whether the record is there. So a wish says where the sinks ended before its records were
found to be missing: what has been repaired since lies from there on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, Self

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.wishes import State, Wish, WishLog

REPAIRS_TOPIC: Final = "_repairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Wish):
    """Records of a topic that a query is to read again.

    `stretches` are partition, first and last offset. `sinks_from` is by topic id and partition. `doubles` are
    rows of the query's table that are there more than once, as source coordinates.
    """

    topic_id: str
    stretches: tuple[tuple[int, int, int], ...] = ()
    doubles: tuple[str, ...] = ()
    sinks_from: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    # How many records or rows were written or removed; the message says why not all, or why it failed.
    changed: int = 0

    def answered(self, state: State, *, changed: int = 0, message: str = "") -> Repair:
        """The answer, without what was asked for."""
        return Repair(
            id=self.id,
            query=self.query,
            topic_id=self.topic_id,
            state=state,
            attempts=self.attempts,
            changed=changed,
            message=message,
        )

    def failed(self, reason: str) -> Self:
        return dataclasses.replace(
            self, stretches=(), doubles=(), sinks_from={}, state="FAILED", message=reason
        )


class RepairLog(WishLog[Repair]):
    """Both sides of the topic. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises log_unavailable."""
        super().__init__(cluster, REPAIRS_TOPIC, Repair, called="repair")
