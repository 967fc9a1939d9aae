"""Questions to the database of a worker within the process of the test, with rollups and without."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.query.planning import Planner, Tails
from headrace.query.questions import OFF, ON, NamedTables, Question, QuestionLimits, TablePlan
from headrace.query.result_formats import ROWS, unpickled
from headrace.query.workers.answering import Answering, AskAgainError
from headrace.query.workers.parts import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """`rollups` are the names of those that were used."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[object, ...]]
    tables: list[dict[str, Any]]

    @property
    def rollups(self) -> list[str]:
        return [each["rollup"] for table in self.tables for each in table.get("rollups", ())]


class Asker:
    def __init__(self, lake: Path, temporary: Path, tails: Tails | None = None) -> None:
        self.planner = Planner(lake, tails)
        self._answering = Answering(lake, QuestionLimits(threads=1), Path(tempfile.mkdtemp(dir=temporary)))

    def ask(self, sql: str, parameters: Sequence[object] = (), *, rollups: str = ON) -> Answered:
        """As a desk does it: a plan that is out of date is made anew."""
        widened: frozenset[str] = frozenset()
        for _ in range(4):
            try:
                return self._once(sql, parameters, rollups, widened)
            except AskAgainError as error:
                widened |= set(error.widen)
                rollups = OFF if error.plainly else rollups
            finally:
                self._answering.free()
        raise AssertionError(f"the plan is out of date every time: {sql}")

    def _once(
        self, sql: str, parameters: Sequence[object], rollups: str, widened: frozenset[str]
    ) -> Answered:
        question = Question(sql=sql, parameters=tuple(parameters), answer_format=ROWS, rollups=rollups)
        snapshots = self.planner.snapshots()
        columns: list[tuple[Sequence[str], Sequence[str]]] = []
        parts: list[bytes] = []

        def tables_of(named: NamedTables) -> Sequence[TablePlan]:
            return self.planner.plan(question, snapshots, named, widened)

        output = Output(
            columns=lambda names, types: columns.append((names, types)),
            data=lambda part: parts.append(bytes(part)),
        )
        summary = self._answering.answer(question, snapshots, tables_of, output)
        names, types = columns[0]
        return Answered(
            columns=tuple(names),
            types=tuple(types),
            rows=list(unpickled(b"".join(parts))),
            tables=[dict(table) for table in summary.tables],
        )


def same(asker: Asker, sql: str, parameters: Sequence[object] = ()) -> Answered:
    """Ask both ways, and compare whatever can be compared."""
    with_rollups, plain = asker.ask(sql, parameters), asker.ask(sql, parameters, rollups=OFF)
    assert (with_rollups.columns, with_rollups.types) == (plain.columns, plain.types), sql
    found, expected = with_rollups.rows, plain.rows
    if not re.search(r"ORDER BY [^()]*$", sql):
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert list(map(repr, found)) == list(map(repr, expected)), (sql, found[:9], expected[:9])
    assert not plain.rollups
    return with_rollups
