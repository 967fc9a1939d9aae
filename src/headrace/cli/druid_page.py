"""Generates `docs/druid-sql.md` from the code: `python -m headrace.cli.druid_page docs/druid-sql.md`.

Invariant: the page is a pure function of the rows of functions and of the list of differences; a test fails
if the file in the repository differs from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.query.druid.differences import DIFFERENCES
from headrace.query.druid.functions import FAMILIES

_INTRODUCTION = """# Druid SQL

<!-- Generated from the code: python -m headrace.cli.druid_page docs/druid-sql.md -->

The SQL API of [Apache Druid](https://druid.apache.org) ([http.md](http.md#sql-port-8888)) answers
queries on the tables of the lake, for pydruid, its SQLAlchemy dialect, and tools built on these:

```python
from pydruid.db import connect

cursor = connect(host="localhost", port=8888, path="/druid/v2/sql/").cursor()
cursor.execute("SELECT TIME_FLOOR(__time, 'PT1H') AS hour, COUNT(*) AS n FROM events GROUP BY 1")
```

A statement is translated to DuckDB's SQL. It may contain the functions below, and the clauses of SELECT:
WITH, joins, subqueries, UNNEST, UNION, EXCEPT, INTERSECT, grouping sets, windows, ORDER BY, LIMIT and OFFSET.
Nulls and boolean logic are those of standard SQL, as in current versions of Druid. An unknown function or
column is an error that names it and its place.

## Where it differs

"""


def druid_page() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION + _table(("what", "Druid", "here"), DIFFERENCES),
        "## Functions\n",
        "CASE, CAST, EXTRACT, FLOOR, CEIL, `FLOOR(… TO unit)`, CURRENT_TIMESTAMP, CURRENT_DATE, and:\n",
    ]
    for family in FAMILIES:
        parts.append(f"### {family.title}\n")
        rows = ((f"`{function.syntax}`", function.note) for function in family.functions)
        parts.append(_table(("function", "differs from Druid"), rows))
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m headrace.cli.druid_page FILE", file=sys.stderr)
        return 2
    Path(arguments[0]).write_text(druid_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
