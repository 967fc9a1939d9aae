"""Where the answers of Druid's SQL API differ from Druid's, beside what the notes of functions say.

docs/druid-sql.md is generated from this list and from the rows of functions.
"""

from __future__ import annotations

from typing import Final

DIFFERENCES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "`__time`",
        "a column of every datasource",
        "the table's property `headrace.time.column`, otherwise its first column of type TIMESTAMP, "
        "otherwise `_POSTED_AT`; the column also keeps its own name",
    ),
    ("names", "depend on case", "match regardless of case; an answer spells them as the statement does"),
    ("times", "milliseconds", "microseconds, of which answers show milliseconds"),
    ("decimals", "floating point", "the same; sums of DECIMAL columns are exact until the answer"),
    (
        "division by zero",
        "an error for integers, infinity for floating point",
        "an error for both; SAFE_DIVIDE gives null in both",
    ),
    (
        "`COUNT(DISTINCT …)`",
        "approximate",
        "exact, unless the context asks for `useApproximateCountDistinct`",
    ),
    ("EARLIEST, LATEST, ANY_VALUE", "text is cut after 1,024 bytes", "text is whole"),
    (
        "multi-value strings",
        "a type of their own; GROUP BY unnests them",
        "arrays; use UNNEST",
    ),
    ("nested columns", "JSON", "structures and maps; JSON_VALUE, JSON_QUERY and JSON_KEYS read them"),
    ("sketches, lookups, Bloom filters", "extensions", "an error that says so"),
    (
        "INSERT, REPLACE, tasks",
        "ingestion by SQL",
        "an error: the lake is read-only here; connectors fill it",
    ),
    ("EXPLAIN PLAN FOR", "a native query", "the SQL and the plan of DuckDB, in the same three columns"),
    ("sys", "segments, servers, tasks", "one server; the other tables exist and are empty"),
    (
        "context",
        "many parameters",
        "`sqlQueryId`, `sqlTimeZone`, `timeout`, `useApproximateCountDistinct` and "
        "`sqlStringifyArrays`, all but the first also by SET; `after` and `afterSeconds` are our own "
        "([receipts](http.md)); others have no effect",
    ),
    (
        "recursion",
        "no stated limit",
        "statements may be nested 24 deep and be 1,000,000 characters long",
    ),
    ("JDBC", "Avatica", "not offered"),
)
