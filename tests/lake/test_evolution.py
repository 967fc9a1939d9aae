"""How columns change, as examples and as properties of generated schemas."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.evolution import (
    NEW_JSON_TABLE,
    NEW_TABLE,
    Evolution,
    Rules,
    evolved,
    holds_some,
    merged,
    rules_of,
    wider,
)
from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct, Type, ddl

INT, BIGINT, FLOAT, DOUBLE, STRING = Simple.INT, Simple.BIGINT, Simple.FLOAT, Simple.DOUBLE, Simple.STRING


def struct(**fields: Type) -> Struct:
    return Struct(fields=tuple(Field(name=name, type=kind) for name, kind in fields.items()))


def decimal(precision: int, scale: int) -> Decimal:
    return Decimal(precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (INT, INT, INT),
        (INT, BIGINT, BIGINT),
        (INT, DOUBLE, DOUBLE),
        (INT, FLOAT, DOUBLE),
        (FLOAT, DOUBLE, DOUBLE),
        (BIGINT, DOUBLE, None),
        (BIGINT, FLOAT, None),
        (decimal(5, 2), decimal(10, 2), decimal(10, 2)),
        (decimal(5, 2), decimal(6, 4), decimal(7, 4)),
        (decimal(30, 0), decimal(10, 10), None),
        (INT, decimal(4, 2), decimal(12, 2)),
        (BIGINT, decimal(20, 2), decimal(22, 2)),
        (decimal(4, 2), DOUBLE, None),
        (Simple.DATE, Simple.TIMESTAMP_NTZ, None),
        (Simple.TIMESTAMP, Simple.TIMESTAMP_NTZ, None),
        (INT, STRING, None),
        (STRING, Simple.BINARY, None),
        (struct(a=INT), INT, None),
    ],
)
def test_the_wider_type(one: Type, other: Type, expected: Type | None) -> None:
    assert wider(one, other) == expected
    assert wider(other, one) == expected


def test_columns_are_added_at_any_depth_and_never_removed() -> None:
    table = struct(a=INT, s=struct(x=INT), m=Map(value=struct(p=INT)), l=Array(element=struct(q=INT)))
    record = struct(
        l=Array(element=struct(r=INT)), new=STRING, m=Map(value=struct(p=INT, o=INT)), s=struct(y=INT, x=INT)
    )
    found = evolved(table, record, rules=Rules())
    assert ddl(found.struct) == (
        "STRUCT<`a`:INT,`s`:STRUCT<`x`:INT,`y`:INT>,`m`:MAP<STRING,STRUCT<`p`:INT,`o`:INT>>,"
        "`l`:ARRAY<STRUCT<`q`:INT,`r`:INT>>,`new`:STRING>"
    )
    assert [change.path for change in found.added] == ["s.y", "m[].o", "l[].r", "new"]
    assert [change.definition for change in found.added] == [
        "`s`.`y` INT",
        "`m`.`value`.`o` INT",
        "`l`.`element`.`r` INT",
        "`new` STRING",
    ]
    assert (found.widened, found.misfits) == ((), ())


def test_case_does_not_make_another_column() -> None:
    assert evolved(struct(a=INT), struct(A=INT), rules=Rules()) == Evolution(struct=struct(a=INT))


def test_an_existing_table_keeps_its_types() -> None:
    found = evolved(struct(a=INT, b=DOUBLE), struct(a=BIGINT, b=INT), rules=Rules())
    assert found.struct == struct(a=INT, b=DOUBLE)
    (misfit,) = found.misfits
    assert misfit.reason == "Field a is BIGINT, its column is INT."
    assert holds_some(misfit.column, misfit.field)


def test_a_new_table_is_as_wide_as_all_schemas() -> None:
    found = evolved(struct(a=INT, s=struct(x=FLOAT)), struct(a=BIGINT, s=struct(x=DOUBLE)), rules=NEW_TABLE)
    assert found.struct == struct(a=BIGINT, s=struct(x=DOUBLE))
    assert [(each.path, each.before, each.after) for each in found.widened] == [
        ("a", INT, BIGINT),
        ("s.x", FLOAT, DOUBLE),
    ]


@pytest.mark.parametrize(
    ("column", "field"),
    [(INT, STRING), (struct(a=INT), Array(element=INT)), (STRING, struct(a=INT)), (BIGINT, DOUBLE)],
)
def test_types_that_do_not_go_together_are_misfits(column: Type, field: Type) -> None:
    found = evolved(struct(c=column), struct(c=field), rules=NEW_TABLE)
    assert found.struct == struct(c=column)
    assert [(each.path, each.column, each.field) for each in found.misfits] == [("c", column, field)]


def test_in_json_they_become_texts_and_numbers_doubles() -> None:
    found = merged(
        [struct(a=BIGINT, b=BIGINT, c=struct(x=INT)), struct(a=DOUBLE, b=STRING, c=BIGINT)],
        rules=NEW_JSON_TABLE,
    )
    assert found == struct(a=DOUBLE, b=STRING, c=STRING)


@pytest.mark.parametrize(
    ("compatibility", "columns"),
    [("NONE", "ab"), ("BACKWARD", "ab"), ("FULL", "ab"), ("FORWARD", "a")],
)
def test_compatibility_decides_whether_columns_are_added(compatibility: str, columns: str) -> None:
    found = evolved(struct(a=INT), struct(a=INT, b=INT), rules=rules_of(compatibility))
    assert [field.name for field in found.struct.fields] == list(columns)
    assert not found.misfits


def test_another_compatibility_is_refused() -> None:
    with pytest.raises(HeadraceError, match="Use NONE, BACKWARD"):
        rules_of("SIDEWAYS")


singles = st.sampled_from(list(Simple)) | st.builds(
    lambda precision, scale: decimal(max(precision, scale), scale), st.integers(1, 38), st.integers(0, 38)
)
fields = st.lists(st.sampled_from("abcdABCD"), unique_by=str.casefold, max_size=4)


def structs_of(kinds: st.SearchStrategy[Type]) -> st.SearchStrategy[Struct]:
    return fields.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, kinds))).map(
        lambda given: struct(**given)
    )


types = st.recursive(
    singles,
    lambda inner: (
        st.builds(lambda kind: Array(element=kind), inner)
        | st.builds(lambda kind: Map(value=kind), inner)
        | structs_of(inner)
    ),
    max_leaves=6,
)
structs = structs_of(types)
# Types that go together more often than not.
numbers = structs_of(st.sampled_from([INT, BIGINT, FLOAT, DOUBLE, decimal(12, 2), decimal(30, 6)]))
rules = st.sampled_from([NEW_TABLE, NEW_JSON_TABLE, Rules(), Rules(adds=False)])


@given(table=structs, record=structs, rules=rules)
def test_merging_again_changes_nothing(table: Struct, record: Struct, rules: Rules) -> None:
    once = evolved(table, record, rules=rules)
    again = evolved(once.struct, record, rules=rules)
    assert (again.struct, again.changes) == (once.struct, ())
    assert evolved(table, table, rules=rules) == Evolution(struct=table)


@given(table=structs, record=structs, rules=rules)
def test_no_column_is_lost_and_their_order_stays(table: Struct, record: Struct, rules: Rules) -> None:
    found = evolved(table, record, rules=rules).struct
    names = [field.name for field in found.fields]
    assert names[: len(table.fields)] == [field.name for field in table.fields]
    assert len({name.casefold() for name in names}) == len(names)
    if rules.adds:
        assert all(found.find(field.name) for field in record.fields)


def _without_order(kind: Type) -> object:
    match kind:
        case Struct():
            return frozenset((each.name.casefold(), _without_order(each.type)) for each in kind.fields)
        case Array():
            return ("array", _without_order(kind.element))
        case Map():
            return ("map", _without_order(kind.value))
        case _:
            return kind


@given(given=st.lists(structs | numbers, min_size=2, max_size=3))
def test_without_misfits_the_order_of_schemas_has_no_meaning(given: list[Struct]) -> None:
    results = set()
    for order in itertools.permutations(given):
        found, has_misfits = Struct(fields=()), False
        for each in order:
            step = evolved(found, each, rules=NEW_TABLE)
            found, has_misfits = step.struct, has_misfits or bool(step.misfits)
        results.add(None if has_misfits else _without_order(found))
    assert len(results) == 1


@given(table=structs, record=structs)
def test_the_columns_of_an_existing_table_keep_their_types(table: Struct, record: Struct) -> None:
    found = evolved(table, record, rules=Rules(adds=False))
    assert (found.struct, found.changes) == (table, ())
