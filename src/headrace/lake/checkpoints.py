"""Reads checkpoints of a Delta log: the Parquet files that stand for all commits up to their version.

A row of a checkpoint is one action, in a column of its kind: `add`, `remove`, `metaData`, `protocol`. Reads
what Delta writes for the tables of the lake: one file or several parts, no sidecars, whose feature is refused
(`protocol.py`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

_COPY: Final = "_parsed"


def checkpoint_actions(content: bytes, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The actions of these kinds in one file of a checkpoint, as in a commit."""
    # Imported here: most parts of the platform need no database to know the lake.
    import duckdb  # noqa: PLC0415

    with tempfile.NamedTemporaryFile(suffix=".parquet") as file, duckdb.connect() as database:
        file.write(content)
        file.flush()
        database.execute("SET threads = 1")
        described = database.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file.name]).fetchall()
        present = {row[0] for row in described}
        for kind in kinds:
            if kind not in present:
                continue
            database.execute(
                f'SELECT to_json("{kind}") FROM read_parquet(?) WHERE "{kind}" IS NOT NULL', [file.name]
            )
            while rows := database.fetchmany(10_000):
                for (text,) in rows:
                    yield {kind: _as_in_a_commit(json.loads(text))}


def _as_in_a_commit(action: dict[str, Any]) -> dict[str, Any]:
    """Without fields that have no value, and without the copies of statistics and partitions in columns."""
    return {name: value for name, value in action.items() if value is not None and not name.endswith(_COPY)}
