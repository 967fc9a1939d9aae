"""What `headrace lake` does: opens the tables, asks the pipeline process, and prints what it answers.

Invariant: JSON contains nothing but the answer; signs of progress go to standard error, on a terminal only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer

from headrace.assembly.lake_tables import LakeTables, Seen
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.delta_log import DeltaLog
from headrace.lake.rebuilding import parse_partition
from headrace.lake.restoring import plan_restore, returning
from headrace.lake.restoring_words import restored_text
from headrace.lake.versions import version_at
from headrace.pipeline.catalogue.lake_orders import Kind, LakeOrder


@contextmanager
def opened(settings: Settings) -> Iterator[LakeTables]:
    lake = LakeTables(settings)
    try:
        yield lake
    except OSError as error:
        raise HeadraceError("storage_failed", f"The table cannot be read: {error}.") from error
    finally:
        lake.close()


def existing(lake: LakeTables, name: str, *, is_whole: bool = True) -> Seen:
    """Raises no_such_table, and lake_damaged if it must be whole."""
    seen = lake.see(lake.named(name))
    if seen.look.problem and not is_whole:
        return seen
    if seen.look.problem:
        raise HeadraceError(
            "lake_damaged",
            f"Table {name} at {seen.table.location} cannot be read: {seen.look.problem}.",
            remedy=f"If its log is damaged, run `headrace lake repair {seen.table.name}`.",
        )
    if not seen.look.exists:
        raise HeadraceError(
            "no_such_table",
            f"There is no table {name} at {seen.table.location} yet.",
            remedy=f"Connector {seen.table.connector} creates it with the first record of "
            f"topic {seen.table.topic}.",
        )
    return seen


def ordered(
    settings: Settings,
    kind: Kind,
    table: str,
    *,
    as_json: bool,
    partition: str = "",
    **fields: Any,
) -> None:
    """Ask for it, and print the answer."""
    with opened(settings) as lake:
        values: dict[str, str | None] = {}
        if partition:
            values = parse_partition(partition, existing(lake, table).look.partition_columns)
        order = LakeOrder(id="", query="", table=table, kind=kind, partition=values, **fields)
        _print_answer(lake.order(order, on_sign=_sign), as_json=as_json)


def restored(
    settings: Settings, table: str, *, version: int | None, time: str, is_asked: bool, as_json: bool
) -> None:
    """Say what a restore means, ask whether it is wanted, and have it carried out."""
    with opened(settings) as lake:
        seen = existing(lake, table)
        log = DeltaLog(seen.table.location)
        wanted = version_at(log, _milliseconds(time)) if version is None else version
        plan = plan_restore(log, wanted, name=seen.table.name)
        if is_asked:
            topic_id, starts = ("", {}) if seen.topic is None else (seen.topic.topic_id, seen.topic.starts)
            back = returning(plan, topic_id=topic_id, starts=starts)
            print(restored_text(plan, back, table=seen.table.name, topic=seen.table.topic))
            if not plan.changes_nothing:
                typer.confirm("Restore it?", abort=True)
        order = LakeOrder(id="", query="", table=table, kind="restore", version=wanted)
        _print_answer(lake.order(order, on_sign=_sign), as_json=as_json)


def _milliseconds(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise HeadraceError(
            "bad_request", f"{text!r} is not a time.", remedy="Write it as 2026-03-14T12:00:00 (UTC)."
        ) from error
    with_zone = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(with_zone.timestamp() * 1000)


def _sign(so_far: str) -> None:
    if so_far and sys.stderr.isatty():
        print(f"… {so_far}", file=sys.stderr)


def _print_answer(answer: LakeOrder, *, as_json: bool) -> None:
    if as_json:
        content = {"table": answer.table, "order": answer.kind, "message": answer.message, **answer.result}
        print(json.dumps(content))
        return
    print(answer.message)
    if answer.kind == "vacuum" and answer.is_dry_run:
        for name in answer.result.get("files", ()):
            print(f"  {name}")
