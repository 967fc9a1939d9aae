"""What identifies a row of a stateful query, within its batch and beyond.

| rows | within a batch | among the rows of former checkpoints |
|---|---|---|
| an aggregate, a join of tables | the key | the key, if its newest value is the same |
| an aggregate with EMIT FINAL | the key with its window | the same: a window is final once |
| a join of streams | the key and the origin | the same: the records that were joined |
| a push query, which has no keys | key and value, counted | the same |

An aggregate is identified by its key because a repeated batch may give another value: a sum of doubles or a
list depends on the order of the records. Its origin is 0. The origin of a joined row is a hash of the source
coordinates of its records. The header has it, with the id of the checkpoint and the number of the batch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headrace.pipeline.plan import Aggregate, QueryPlan, StreamJoin, TableJoin, steps_of
from headrace.pipeline.statements.queries import Emit

NO_ORIGIN: Final = "0"


class RowIdentity(Enum):
    KEY = "key"
    FINAL_KEY = "final key"
    ORIGIN = "origin"
    CONTENT = "content"


def row_identity(plan: QueryPlan) -> RowIdentity:
    last = next(step for step in steps_of(plan.root) if isinstance(step, Aggregate | StreamJoin | TableJoin))
    if isinstance(last, StreamJoin):
        return RowIdentity.ORIGIN
    if not plan.sink.key:
        return RowIdentity.CONTENT
    if isinstance(last, Aggregate) and last.window is not None and plan.emit is Emit.FINAL:
        return RowIdentity.FINAL_KEY
    return RowIdentity.KEY
