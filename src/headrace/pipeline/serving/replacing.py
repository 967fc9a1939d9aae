"""CREATE OR REPLACE: which replacements are allowed, following ksqlDB's rules for upgrades.

A stream or table must keep its kind, topic, formats and key; columns may only be added after the existing
ones. A query must also be able to continue where the former one stopped: it takes over the checkpoint, which
has the offsets of its sources and its state. So sources, grouping, windows, joins, keys and EXPLODE cannot
change, but WHERE, HAVING and the expressions of columns can; records that were read are not read again. The
state of joins and of aggregated tables depends on the whole query, so only an equal query can replace such a
query. Everything else is refused with the reason. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from enum import Enum

from headrace.pipeline.catalogue.catalogue import (
    Catalogue,
    Column,
    Encoding,
    PersistentQuery,
    QueryKind,
    Source,
)
from headrace.pipeline.plan import (
    Aggregate,
    Explode,
    Filter,
    Project,
    QueryPlan,
    Read,
    Rekey,
    Step,
    StreamJoin,
    TableJoin,
    TableLookup,
    inputs_of,
)
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.tree import CreateAs, CreateSource, SourceKind

# Positions and the words of the statement do not affect what a query does.
_MEANINGLESS = frozenset({"at", "text"})


def check_replacement(former: Source, new: Source, statement: CreateSource | CreateAs) -> None:
    """Raises StatementError if the new source cannot replace the former."""
    reason = _reason(former, new)
    if reason is not None:
        raise _refusal(f"data source `{former.name}`", reason, former, statement)


def replaced_query(catalogue: Catalogue, sink: Source, statement: CreateAs) -> PersistentQuery:
    """The query that the statement replaces, taking over its id and thereby its offsets."""
    former = [known for known in catalogue.writers_of(sink.name) if known.kind is not QueryKind.INSERT]
    if not former:
        raise StatementError(
            f"Cannot replace {sink.name}: no query writes it.",
            statement.at,
            remedy=f"DROP {statement.kind.value} {sink.name} first.",
        )
    return former[0]


def check_not_written(catalogue: Catalogue, former: Source, statement: CreateSource) -> None:
    """Raises StatementError if a query writes the stream or table and so determines its columns."""
    if any(query.kind is not QueryKind.INSERT for query in catalogue.writers_of(former.name)):
        raise _refusal(
            f"data source `{former.name}`",
            f"a query writes it, which only CREATE OR REPLACE {former.kind.value} … AS SELECT can replace.",
            former,
            statement,
        )


def check_upgrade(query_id: str, former: QueryPlan, new: QueryPlan, statement: CreateAs) -> None:
    """Raises StatementError if the new plan cannot continue where the former one stopped."""
    reason = next(_obstacles(former, new), None)
    if reason is not None:
        raise _refusal(f"query `{query_id}`", reason, former.sink, statement)


def _refusal(what: str, reason: str, former: Source, statement: CreateSource | CreateAs) -> StatementError:
    return StatementError(
        f"Cannot upgrade {what}: {reason}",
        statement.at,
        remedy=f"DROP {former.kind.value} {former.name} and create it again.",
    )


def _reason(former: Source, new: Source) -> str | None:  # noqa: PLR0911 - one for each reason
    if former.kind is not new.kind:
        return f"it is a {former.kind.value.lower()} and cannot become a {new.kind.value.lower()}."
    if former.topic != new.topic:
        return f"the topic cannot change from {former.topic} to {new.topic}."
    if former.key != new.key:
        return f"the key columns cannot change from {_listed(former.key)} to {_listed(new.key)}."
    if former.key_encoding.format is not new.key_encoding.format:
        return "the format of the key cannot change."
    if former.value_encoding.format is not new.value_encoding.format:
        return "the format of the value cannot change."
    if _bytes_differ(former.key_encoding, new.key_encoding):
        return "the encoding of the key (KEY_DELIMITER) cannot change."
    if _bytes_differ(former.value_encoding, new.value_encoding):
        return "the encoding of the value (VALUE_DELIMITER, WRAP_SINGLE_VALUE) cannot change."
    if former.window != new.window:
        return "the window cannot change."
    if former.value != new.value[: len(former.value)]:
        kept = [column for column in former.value if column not in new.value]
        return (
            f"columns can only be added at the end (missing or changed: {_listed(kept)})."
            if kept
            else ("columns can only be added at the end, and keep their order.")
        )
    return None


def _bytes_differ(former: Encoding, new: Encoding) -> bool:
    """Compares encodings of one format. Several columns are wrapped by default, so only False matters."""
    return former.delimiter != new.delimiter or (former.wrapped is False) != (new.wrapped is False)


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"


def _obstacles(former: QueryPlan, new: QueryPlan) -> Iterator[str]:
    """Why the new plan cannot take over; the error gives the first reason."""
    if former.sources != new.sources:
        was, becomes = ", ".join(former.sources), ", ".join(new.sources)
        yield f"its sources cannot change from {was} to {becomes}."
    if former.emit is not new.emit:
        yield f"EMIT {former.emit.value} cannot become EMIT {new.emit.value}."
    yield from _differences(former.root, new.root)
    if _essence(_keys(former.root)) != _essence(_keys(new.root)):
        yield "the expression of its key cannot change, as rows of one key would be in two partitions."
    keeper = next((why for plan in (former, new) if (why := _bound_to_all(plan.root))), None)
    if keeper is not None and _essence(former.root) != _essence(new.root):
        yield keeper


def _differences(former: Step, new: Step) -> Iterator[str]:
    """Differences between the steps that a checkpoint depends on: all but WHERE, HAVING and SELECT."""
    former, new = _lasting(former), _lasting(new)
    if type(former) is not type(new):
        yield _changed_kind(former, new)
        return
    yield from _changes(former, new)
    for before, after in zip(inputs_of(former), inputs_of(new), strict=True):
        yield from _differences(before, after)


def _lasting(step: Step) -> Step:
    while isinstance(step, Filter | Project):
        step = step.input
    return step


def _changes(former: Step, new: Step) -> Iterator[str]:
    match former, new:
        case Aggregate(), Aggregate():
            if _essence(former.window) != _essence(new.window):
                yield "its window cannot change: the state is kept by window."
            if _essence(former.keys) != _essence(new.keys):
                yield "its GROUP BY cannot change: the state is kept by group."
            if _essence(former.calls) != _essence(new.calls):
                yield (
                    "its aggregates cannot change: the state of a new one would lack the records that were "
                    "read before."
                )
        case Rekey(), Rekey() if _essence(former.keys) != _essence(new.keys):
            yield "its PARTITION BY cannot change, as rows of one key would be in two partitions."
        case Explode(), Explode() if _essence(former.functions) != _essence(new.functions):
            yield "its EXPLODE cannot change: rows are identified by their number within a record."
        case ((StreamJoin() | TableLookup() | TableJoin()), _) if _joined(former) != _joined(new):
            yield "its join cannot change."
        case _:
            pass


def _joined(step: Step) -> object:
    """What the join itself does, without its inputs."""
    inputs = inputs_of(step)
    return [_essence(getattr(step, field.name)) for field in dataclasses.fields(step)
            if getattr(step, field.name) not in inputs]  # fmt: skip


def _changed_kind(former: Step, new: Step) -> str:
    names: dict[type, str] = {
        Aggregate: "a GROUP BY",
        Rekey: "a PARTITION BY",
        Explode: "an EXPLODE",
        StreamJoin: "a join of streams",
        TableLookup: "a join with a table",
        TableJoin: "a join of tables",
    }
    was, becomes = names.get(type(former)), names.get(type(new))
    if was is None:
        return f"{becomes} cannot be added to a running query: the state would lack the records before."
    if becomes is None:
        return f"{was} cannot be removed from a running query."
    return f"{was} cannot become {becomes}."


def _keys(root: Step) -> object:
    return root.keys if isinstance(root, Project) else ()


def _bound_to_all(step: Step) -> str | None:
    """Why only an equal query can replace a query with that step."""
    match step:
        case StreamJoin():
            return (
                "a query with a join of streams keeps state that depends on all of it, so nothing can change."
            )
        case TableJoin():
            return "a query with a join of tables computes rows from both, so nothing can change."
        case Aggregate() if _is_table(step.input):
            return "an aggregation of a table undoes what it has added, so nothing can change."
    return next((why for each in inputs_of(step) if (why := _bound_to_all(each))), None)


def _is_table(step: Step) -> bool:
    lasting = _lasting(step)
    if isinstance(lasting, Read):
        return lasting.source.kind is SourceKind.TABLE
    return isinstance(lasting, TableJoin)


def _essence(value: object) -> object:
    """What a part of a plan does, for comparing: without positions and the statement's words. Of a source,
    its name is enough, as the expressions include its columns.
    """
    if isinstance(value, Source):
        return value.name
    if isinstance(value, Enum) or not dataclasses.is_dataclass(value):
        return [_essence(each) for each in value] if isinstance(value, tuple) else value
    fields = [
        each.name for each in dataclasses.fields(value) if each.compare and each.name not in _MEANINGLESS
    ]
    return (type(value).__name__, *(_essence(getattr(value, name)) for name in fields))
