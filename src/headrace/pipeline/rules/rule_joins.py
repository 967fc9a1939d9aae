"""Joins, from left to right: each joins the result so far with one more source.

The key of a join is the expression that both sides are joined by. Columns known to equal it may represent it
in the projection; if there is none (full joins, joins by expressions only), the join makes its own key,
ROWKEY.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.scope import Visible
from headrace.pipeline.plan import (
    DEFAULT_GRACE_MS,
    Read,
    Repartition,
    Step,
    StreamJoin,
    TableJoin,
    TableLookup,
)
from headrace.pipeline.rules.draft import Draft, Key, StarColumn
from headrace.pipeline.rules.join_checks import Sides, check_sources, check_types, joined_by
from headrace.pipeline.rules.names import Names
from headrace.pipeline.rules.source_columns import own_keys, star_of
from headrace.pipeline.statements.expressions import ColumnReference, Expression
from headrace.pipeline.statements.queries import Join, JoinKind
from headrace.pipeline.statements.tree import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The result so far. `equal` are expressions known to equal the key."""

    step: Step
    kind: SourceKind
    reads: tuple[Read, ...]
    partitions: int
    key: Computed | None = None
    equal: tuple[Expression, ...] = ()
    # The primary key of the left table, kept by a join with a foreign key.
    kept_keys: tuple[Key, ...] = ()


def join_sources(draft: Draft) -> Draft:
    first = draft.reads[0]
    if not draft.is_join:
        keys, stars = own_keys(first, draft.scope, is_join=False), star_of(first, is_join=False)
        return replace(draft, keys=keys, stars=stars)
    tree = Tree(step=first, kind=first.source.kind, reads=(first,), partitions=first.source.partitions)
    for join, read in zip(draft.select.joins, draft.reads[1:], strict=True):
        tree = _joined(draft, tree, join, read)
    return _with_keys(draft, tree)


def _with_keys(draft: Draft, tree: Tree) -> Draft:
    stars = tuple(
        replace(star, name=f"{star.source}_{star.name}")
        for read in draft.reads
        for star in star_of(read, is_join=True)
    )
    new = replace(draft, step=tree.step, kind=tree.kind, stars=stars, repartition=_last(tree.step))
    if tree.kept_keys:
        return replace(new, keys=tree.kept_keys)
    assert tree.key is not None
    columns = tuple(each for each in tree.equal if isinstance(each, ColumnReference))
    if columns:
        key = Key(name=columns[0].name, expressions=columns, value=tree.key)
        return replace(new, keys=(key,), key_origin="join expression")
    taken = [column.name for read in draft.reads for column in read.source.columns]
    name = Names(taken).free("ROWKEY")
    made = ColumnReference(name)
    visible = Visible(name=name, source=None, spark=tree.key.spark, type=tree.key.type)
    return replace(
        new,
        keys=(Key(name=name, expressions=(made,), value=tree.key),),
        key_origin="join expression",
        has_made_key=True,
        stars=(StarColumn(name=name, expression=made, source=None), *stars),
        scope=new.scope.having(computed={made: visible}),
    )


def _last(step: Step) -> Repartition:
    assert isinstance(step, StreamJoin | TableLookup | TableJoin)
    return step.repartition


def _joined(draft: Draft, tree: Tree, join: Join, read: Read) -> Tree:
    left, right = joined_by(join, tuple(each.alias for each in tree.reads), read.alias)
    sides = Sides(join=join, left=tree.kind, right=read, left_reads=tree.reads, on=(left, right))
    check_sources(sides)
    scope = draft.scope.within("JOIN ON")
    is_kept = left in tree.equal and tree.key is not None
    left_key = tree.key if is_kept and tree.key is not None else compiled(left, scope)
    right_key = compiled(right, scope)
    check_types(sides, left_key, right_key)
    moved_left = not is_kept and not _is_key(tree, left)
    moved_right = not _is_only_key(read, right)
    step = _step(sides, tree, (left_key, right_key), _moved(tree, read, moved_left, moved_right))
    new = replace(tree, step=step, reads=(*tree.reads, read))
    if isinstance(step, TableJoin) and step.by_foreign_key:
        return replace(new, kept_keys=own_keys(tree.reads[0], draft.scope, is_join=True))
    equal: tuple[Expression, ...] = ()
    if join.kind is not JoinKind.FULL:
        # A tuple without duplicates: the order decides which column is named first.
        before = tree.equal if left in tree.equal or right in tree.equal else ()
        equal = tuple(dict.fromkeys((*before, left, right)))
    return replace(
        new, key=_key(join.kind, left_key, right_key), equal=equal, kept_keys=(),
        partitions=max(tree.partitions, read.source.partitions),
    )  # fmt: skip


def _key(kind: JoinKind, left: Computed, right: Computed) -> Computed:
    if kind is JoinKind.RIGHT:
        return right
    if kind is JoinKind.FULL:
        return replace(
            left, spark=f"coalesce({left.spark}, {right.spark})", text=f"{left.text} = {right.text}"
        )
    return left


def _is_key(tree: Tree, expression: Expression) -> bool:
    """Whether it is the key of a single source, or of a table that was joined by a foreign key."""
    if len(tree.reads) > 1 and not tree.kept_keys:
        return False
    return _is_only_key(tree.reads[0], expression)


def _is_only_key(read: Read, expression: Expression) -> bool:
    key = read.source.key
    return len(key) == 1 and expression == ColumnReference(key[0].name, read.alias)


def _moved(tree: Tree, read: Read, left: bool, right: bool) -> Repartition:
    """Sides that are not partitioned by their join expression, and the side with fewer partitions."""
    if not left and not right and tree.partitions != read.source.partitions:
        left = tree.partitions < read.source.partitions
        right = not left
    match left, right:
        case True, True:
            return Repartition.BOTH
        case True, False:
            return Repartition.LEFT
        case False, True:
            return Repartition.RIGHT
        case _:
            return Repartition.NONE


def _step(sides: Sides, tree: Tree, keys: tuple[Computed, Computed], moved: Repartition) -> Step:
    join, read = sides.join, sides.right
    left_key, right_key = keys
    if read.source.kind is SourceKind.STREAM:
        within = join.within
        assert within is not None
        return StreamJoin(
            kind=join.kind,
            left=tree.step,
            right=read,
            left_key=left_key,
            right_key=right_key,
            before_ms=within.before.milliseconds,
            after_ms=within.after.milliseconds,
            grace_ms=DEFAULT_GRACE_MS if within.grace is None else within.grace.milliseconds,
            repartition=moved,
        )
    if tree.kind is SourceKind.STREAM:
        is_global = read.source.is_global
        return TableLookup(
            kind=join.kind,
            stream=tree.step,
            table=read,
            stream_key=left_key,
            table_key=right_key,
            is_global=is_global,
            repartition=Repartition.NONE if is_global else moved,
        )
    by_foreign_key = sides.by_foreign_key
    return TableJoin(
        kind=join.kind,
        left=tree.step,
        right=read,
        left_key=left_key,
        right_key=right_key,
        by_foreign_key=by_foreign_key,
        repartition=Repartition.NONE if by_foreign_key else moved,
    )
