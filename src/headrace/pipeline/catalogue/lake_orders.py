"""Orders for tables of the lake as wishes (`wishes.py`): merge their files, vacuum them, restore a version,
rebuild a partition.

`headrace lake` writes them to the topic `_lake_orders`. The pipeline process, the only writer of tables,
carries them out (`pipeline/spark/lake/table_orders.py`) and answers what it did. All of them may be repeated:
a restore finds its own commit, the others have nothing left to do or do the same again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.wishes import Wish, WishLog

ORDERS_TOPIC: Final = "_lake_orders"

Kind = Literal["optimize", "vacuum", "restore", "rebuild"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOrder(Wish):
    """`query` is that of the connector and topic that write the table, `table` its name for messages.

    `partition` are values by the names of the partition columns, null as None: all of them for a rebuild, any
    for optimize. `hours` and `is_dry_run` are for a vacuum, which `is_forced` if it may be shorter than is
    safe; `version` is for a restore.
    """

    table: str
    kind: Kind
    partition: dict[str, str | None] = field(default_factory=dict)
    hours: int | None = None
    is_dry_run: bool = False
    is_forced: bool = False
    version: int | None = None
    # Grows while it is carried out.
    signs: int = 0
    # The answer by names, for those who want JSON; the message says the same in words.
    result: dict[str, Any] = field(default_factory=dict)

    def done(self, message: str, result: dict[str, Any]) -> LakeOrder:
        return dataclasses.replace(self, state="DONE", message=message, result=result)


class OrderLog(WishLog[LakeOrder]):
    """Both sides of the topic. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises log_unavailable."""
        super().__init__(cluster, ORDERS_TOPIC, LakeOrder, called="order")
