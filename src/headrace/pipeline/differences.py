"""Differences between our statements and ksqlDB's, and why; `docs/compatibility.md` lists them for users.
Those of functions are in `expressions/functions/differences.py`.
"""

from __future__ import annotations

from typing import Final

# What, in ksqlDB, here and why.
DIFFERENCES: Final = (
    (
        "A record's timestamp",
        "The row's time.",
        "When it was written: Spark's Kafka sink cannot set it. The row's time is in the header "
        "`headrace-rowtime`, and queries that read the topic go by that.",
    ),
    (
        "Session windows, EMIT CHANGES",
        "A row for each change.",
        "Refused, as Spark gives sessions when they are closed; EMIT FINAL works.",
    ),
    (
        "Updates of a table",
        "One for each record, as far as its cache lets through.",
        "One for each key and batch.",
    ),
    (
        "When a window is closed",
        "By the time of the records of its partition.",
        "By the time of the records of all partitions, between batches.",
    ),
    (
        "A window or a join behind a join of streams, a further join onto a FULL one",
        "Works.",
        "Refused: Spark allows no second watermark there. Two queries do it.",
    ),
    (
        "Joins of windowed sources, an aggregation of a join of tables",
        "Work.",
        "Refused. An aggregation of a join of tables can be written as two queries.",
    ),
    (
        "Names that differ only in case, such as ID and `id`",
        "Two columns.",
        "Refused: Spark cannot tell them apart.",
    ),
    (
        "A hopping window in which a record belongs to more than 1000 windows; a duration of more than a "
        "million days",
        "Works.",
        "Refused.",
    ),
    (
        "A row that cannot be written",
        "Logged and skipped, or the query fails.",
        "A dead letter, with the reason.",
    ),
    (
        "Joins with a table that is not GLOBAL, joins of tables, aggregations of a table",
        "From a state store: the cost is that of the changed rows.",
        "The table's topic, or a copy of the table, is gone through in each micro-batch that has records: "
        "what is found is never older than the batch, but the cost grows with the table.",
    ),
    (
        "HAVING, and joins of tables",
        "A tombstone only where there was a row.",
        "There may be tombstones for keys that were never there.",
    ),
    (
        "CREATE OR REPLACE of a query",
        "Filters and added columns; none of windowed or joined queries.",
        "Also around an unchanged window or look-up in a table. In real-time mode what was read since the "
        "last commit is read again by the new query.",
    ),
    (
        "EXPLAIN",
        "Kafka Streams' topology, also of statements that do not run.",
        "Spark's plan, of kept queries that run; of others the mode that they would have.",
    ),
    ("Overflow, division by zero", "Whole numbers wrap around; DOUBLEs become infinite.", "Null."),
    (
        "A topic that is not there, without PARTITIONS",
        "Refused.",
        "Made with the log's own number of partitions, with a warning.",
    ),
    (
        "Pull queries",
        "Of tables made by a query.",
        "Of all tables. Moments outside of the years 1 to 9999 are null.",
    ),
    (
        "A record with a date outside the years 1 to 9999, or a time outside the day",
        "Read.",
        "A dead letter, with the reason: Spark, Python and most readers of Parquet know no others.",
    ),
    ("Delivery of aggregates and joins after a crash", "At least once by default.", "Exactly once."),
    (
        "PROTOBUF, JSON_SR, variables of ALTER SYSTEM, connectors in statements, /ws/query, /ksql/terminate",
        "There.",
        "Not there; refused by name where they are statements.",
    ),
)
