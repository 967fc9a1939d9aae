"""The pairs in `fixtures/*.sql`: statements, and the plan or the error that the last of them gives.

Pairs stand between lines of `----`. A pair begins with a comment that says what it shows; then come
statements, of which the last is judged, then a line `==>` and the plan as EXPLAIN prints it, or a line `!!>`
and the error. A first block that ends with `<==` is set-up for all pairs of its file. Positions in errors
count from the pair's first line.

A pair may be written with `==>` or `!!>` and nothing below: `python -m tests.statements.fixture_files` fills
that in, to be read before it is kept. With `--rewrite` it also replaces what no longer holds, after a change
that was meant, and prints what it replaced as a diff. It names first the pairs that turned from a plan into
an error or back: those need the closest look. `--rewrite joins windows` keeps to these files.
"""

from __future__ import annotations

import argparse
import difflib
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A file as it is and as it would be, with the pairs that turned from a plan into an error or back."""

    before: str
    after: str
    turned: tuple[str, ...]

    def diff(self, name: str) -> str:
        lines = (self.before.splitlines(), self.after.splitlines())
        return "\n".join(difflib.unified_diff(*lines, name, name, lineterm="", n=4))


def filled(path: Path, *, rewrite: bool) -> Filled:
    """Only pairs with nothing below their mark, or with `rewrite` all of them."""
    before = path.read_text()
    blocks: list[str] = []
    turned: list[str] = []
    found = iter(pairs_of(path))
    for block in before.rstrip("\n").split(_BETWEEN):
        if block.endswith(_SET_UP):
            blocks.append(block)
            continue
        pair = next(found)
        if rewrite or not pair.expected:
            mark, text = outcome(pair)
            if pair.expected and mark != pair.mark:
                turned.append(pair.name)
            pair = replace(pair, mark=mark, expected=text)
        blocks.append("\n".join((pair.statements, pair.mark, pair.expected)))
    return Filled(before=before, after=_BETWEEN.join(blocks) + "\n", turned=tuple(turned))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill in fixtures; read the diff before it is kept.")
    parser.add_argument("--rewrite", action="store_true", help="also replace what no longer holds")
    parser.add_argument("files", nargs="*", help="names without .sql; all if none is given")
    given = parser.parse_args()
    for path in sorted(FOLDER.glob("*.sql")):
        if given.files and path.stem not in given.files:
            continue
        change = filled(path, rewrite=given.rewrite)
        if change.after == change.before:
            continue
        for name in change.turned:
            print(f"{path.name}: `{name}` turned from a plan into an error, or back")
        print(change.diff(path.name))
        path.write_text(change.after)


if __name__ == "__main__":
    main()
