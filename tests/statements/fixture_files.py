"""The pairs in `fixtures/*.sql`: statements, and the plan or the error that the last of them gives.

Pairs stand between lines of `----`. A pair begins with a comment that says what it shows; then come
statements, of which the last is judged, then a line `==>` and the plan as EXPLAIN prints it, or a line `!!>`
and the error. A first block that ends with `<==` is set-up for all pairs of its file. Positions in errors
count from the pair's first line.

A pair may be written with `==>` or `!!>` and nothing below: `python -m tests.statements.fixture_files` fills
that in (and only that), to be read before it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.rules.explaining import explain, explain_source
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import (
    CreateAs,
    CreateSource,
    CreateType,
    InsertSelect,
    Parsed,
    Query,
)

FOLDER = Path(__file__).parent / "fixtures"
_BETWEEN = "\n----\n"
_PLAN, _ERROR, _SET_UP = "==>", "!!>", "<=="


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    file: str
    name: str
    set_up: str
    statements: str
    # ==> or !!>
    mark: str
    expected: str


def pairs() -> Iterator[Pair]:
    for path in sorted(FOLDER.glob("*.sql")):
        yield from pairs_of(path)


def pairs_of(path: Path) -> Iterator[Pair]:
    set_up = ""
    for block in path.read_text().rstrip("\n").split(_BETWEEN):
        lines = block.split("\n")
        (at,) = [number for number, line in enumerate(lines) if line in (_PLAN, _ERROR, _SET_UP)]
        statements = "\n".join(lines[:at])
        if lines[at] == _SET_UP:
            set_up = statements
            continue
        name = lines[0].removeprefix("--").strip()
        yield Pair(
            file=path.stem,
            name=name,
            set_up=set_up,
            statements=statements,
            mark=lines[at],
            expected="\n".join(lines[at + 1 :]),
        )


def outcome(pair: Pair) -> tuple[str, str]:
    """The mark and the text that the pair's last statement gives."""
    catalogue = Catalogue()
    for parsed in parse(pair.set_up):
        taken(parsed, catalogue)
    try:
        *before, last = parse(pair.statements)
        for parsed in before:
            taken(parsed, catalogue)
        return _PLAN, taken(last, catalogue)
    except StatementError as error:
        return _ERROR, str(error)


def taken(parsed: Parsed, catalogue: Catalogue) -> str:
    """Puts what a statement makes into the catalogue, and gives its plan as text."""
    statement = parsed.statement
    match statement:
        case CreateSource():
            source = plan_source(statement, catalogue, text=parsed.text)
            catalogue.sources[source.name] = source
            return explain_source(source)
        case CreateType():
            catalogue.types[statement.name] = statement.type
            return ""
        case CreateAs() | InsertSelect() | Query():
            plan = plan_query(statement, catalogue, text=parsed.text)
            if isinstance(statement, CreateAs):
                catalogue.sources[plan.sink.name] = plan.sink
            return explain(plan)
        case _:
            raise AssertionError(statement)


def _fill(path: Path) -> int:
    """How many pairs had nothing below their mark."""
    blocks, filled = [], 0
    found = iter(pairs_of(path))
    for block in path.read_text().rstrip("\n").split(_BETWEEN):
        if block.endswith(_SET_UP):
            blocks.append(block)
            continue
        pair = next(found)
        if not pair.expected:
            mark, text = outcome(pair)
            pair = replace(pair, mark=mark, expected=text)
            filled += 1
        blocks.append("\n".join((pair.statements, pair.mark, pair.expected)))
    if filled:
        path.write_text(_BETWEEN.join(blocks) + "\n")
    return filled


if __name__ == "__main__":
    for each in sorted(FOLDER.glob("*.sql")):
        if count := _fill(each):
            print(f"{each.name}: filled in {count}, to be read")
