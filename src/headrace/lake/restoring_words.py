"""A restore in words and as JSON: what happens to the table, which rows come back and which do not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headrace.lake.restoring import Restore, Return

_MOST_NAMED: Final = 5


def restored_text(plan: Restore, back: Return, *, table: str, topic: str) -> str:
    """What was done, or with a plan that is not carried out yet: what would be."""
    if plan.changes_nothing:
        return f"Table {table} has the rows and positions of version {plan.version} already."
    texts = [
        f"Table {table} goes back to version {plan.version}: {len(plan.removed)} files leave it, "
        f"{len(plan.added)} come back."
    ]
    if plan.metadata is not None:
        texts.append("Columns and settings are those of that version, too.")
    texts.append(_returning(back, topic))
    if back.expired:
        texts.append(
            f"Expired in the topic, so not read again: {_offsets(back.expired)}. Their rows come back only "
            f"with a restore of version {plan.before.number}, until its files are vacuumed."
        )
    if plan.deletions:
        commits = ", ".join(f"{each.version} ({each.operation})" for each in plan.deletions[:_MOST_NAMED])
        more = len(plan.deletions) - _MOST_NAMED
        commits += f" and {more} more" if more > 0 else ""
        texts.append(
            f"Rows that were removed or changed since, in version {commits}, are as before: what version "
            f"{plan.version} has of them at once, what came later when it is read again. Retention by date "
            "removes its part again."
        )
    return " ".join(texts)


def as_content(plan: Restore, back: Return) -> dict[str, Any]:
    return {
        "version": plan.version,
        "files_added": len(plan.added),
        "files_removed": len(plan.removed),
        "positions": {str(number): at for number, at in sorted(plan.progress.positions.offsets.items())},
        "read_again": _stretches(back.again),
        "expired": _stretches(back.expired),
        "topic_was_recreated": back.is_another_topic,
        "deletions_undone": [
            {"version": each.version, "operation": each.operation} for each in plan.deletions
        ],
    }


def _returning(back: Return, topic: str) -> str:
    if back.is_another_topic:
        return (
            f"Topic {topic} was recreated since: all that it has is read again, and each row is looked up "
            "in the table."
        )
    if not back.again:
        return f"Nothing is read again from topic {topic}."
    return f"Later rows come back from topic {topic}: {_offsets(back.again)}."


def _offsets(stretches: Iterable[tuple[int, int, int]]) -> str:
    listed = [f"offsets {first} to {end - 1} of partition {number}" for number, first, end in stretches]
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more partitions" if more > 0 else "")


def _stretches(stretches: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [{"partition": number, "first": first, "end": end} for number, first, end in stretches]
