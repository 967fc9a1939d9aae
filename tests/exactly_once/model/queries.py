"""The queries of the model: what each derives from a record, and the topics they are on.

events ─▶ FIRST ─▶ b ─▶ SECOND ─▶ c ─▶ lake, COUNT ─▶ counts          users ─▶ TABLE ─▶ t
   │        └────▶ letters        ▲
   └──────▶ OTHER ────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.exactly_once.model.log import Row

KINDS = ("0", "1", "2", "bad")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    name: str
    source: str
    # The first is for rows, the second, if there is one, for dead letters.
    sinks: tuple[str, ...]
    is_table: bool = False

    def derived(self, row: Row, origin: tuple[str, int, int]) -> list[tuple[str, int, Row]]:
        """Sink, ordinal and row of whatever comes from one record."""
        parent = row.lineage or "/".join(map(str, origin))
        topic_id, partition, offset = origin
        made = []
        for ordinal, sink in enumerate(self._sinks_of(row)):
            source = f"{self.name}/{topic_id}/{partition}/{offset}/{ordinal}"
            lineage = f"{parent}.{ordinal}"
            derived = Row(key=row.key, value=row.value, writer=self.name, source=source, lineage=lineage)
            made.append((sink, ordinal, derived))
        return made

    def _sinks_of(self, row: Row) -> list[str]:
        if len(self.sinks) == 1:
            return [self.sinks[0]]
        return [self.sinks[1]] if row.value == "bad" else [self.sinks[0]] * int(row.value)


FIRST = Query(name="first", source="events", sinks=("b", "letters"))
SECOND = Query(name="second", source="b", sinks=("c",))
OTHER = Query(name="other", source="events", sinks=("c",))
TWIN = Query(name="twin", source="events", sinks=("c",))
TABLE = Query(name="table", source="users", sinks=("t",), is_table=True)
# The topics between two queries. The count reads `c`, if it runs.
CHAINED = "b"
COUNTED = "c"
# In the order of the data.
STATELESS = (FIRST, SECOND, OTHER, TWIN, TABLE)
PARTITIONS = {"events": 2, "users": 1, "b": 2, "letters": 1, "c": 2, "t": 2, "counts": 2, "lake-letters": 1}
