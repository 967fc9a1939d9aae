"""CREATE OR REPLACE: which replacements are sound, as ksqlDB's rules for upgrades have them.

Sound is what goes on with the same topic: the same kind, topic, formats and key, and columns that are only
added behind those there. Everything else is refused with the reason. What a query itself may change (its
projection and its filter) is for whoever runs it to judge.
"""

from __future__ import annotations

from headrace.pipeline.catalogue import Source
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.tree import CreateAs, CreateSource


def check_replacement(former: Source, new: Source, statement: CreateSource | CreateAs) -> None:
    """Raises StatementError where the new source cannot take the place of the former."""
    reason = _reason(former, new)
    if reason is not None:
        raise StatementError(
            f"Cannot upgrade data source `{former.name}`: {reason}",
            statement.at,
            remedy=f"DROP {former.kind.value} {former.name} and create it anew.",
        )


def _reason(former: Source, new: Source) -> str | None:  # noqa: PLR0911 - one for each reason
    if former.kind is not new.kind:
        return f"it is a {former.kind.value.lower()}, and cannot become a {new.kind.value.lower()}."
    if former.topic != new.topic:
        return f"the topic cannot change from {former.topic} to {new.topic}."
    if former.key != new.key:
        return "the key columns cannot change."
    if former.key_encoding.format is not new.key_encoding.format:
        return "the format of the key cannot change."
    if former.value_encoding.format is not new.value_encoding.format:
        return "the format of the value cannot change."
    if former.window != new.window:
        return "the window cannot change."
    if former.value != new.value[: len(former.value)]:
        kept = [column for column in former.value if column not in new.value]
        named = ", ".join(f"{column.name} {column.type}" for column in kept)
        return (
            f"columns can only be added at the end (missing or changed: {named})."
            if kept
            else ("columns can only be added at the end, in the order that they have.")
        )
    return None
