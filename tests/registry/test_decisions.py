"""What becomes of changes: deletion, references, modes, importing; and that half-done ones are finished."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from headrace.registry.changes import (
    Change,
    DeleteSubject,
    DeleteVersion,
    Register,
    RemoveMode,
    SetConfig,
    SetMode,
)
from headrace.registry.decisions import Decision, decide
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.records import SchemaRecord
from headrace.registry.schema import Reference
from headrace.registry.state import RegistryState
from tests.registry.test_proposals import CHANGES, INT, LONG, READER, REMOVAL, histories, observed


def register(subject: str, schema: str, *references: Reference, **more: int) -> Register:
    return Register(subject=subject, schema_type="AVRO", schema=schema, references=references, **more)


def after(*changes: Change) -> RegistryState:
    state = RegistryState(READER)
    for change in changes:
        decision = decide(state, change)
        assert decision.refusal is None, decision.refusal
        carry_out(state, decision)
    return state


def carry_out(state: RegistryState, decision: Decision, most: int | None = None) -> None:
    for effect in decision.effects[:most]:
        state.replay(effect)


def refused(state: RegistryState, change: Change) -> str:
    decision = decide(state, change)
    assert decision.refusal is not None, decision
    assert decision.effects == ()
    return decision.refusal.code


@given(histories(), CHANGES)
@example([INT, LONG, SetConfig(subject="a", level=Level.NONE), REMOVAL[0]], REMOVAL[1])
@example([INT, LONG], REMOVAL[0])
def test_what_was_carried_out_in_part_is_finished_by_deciding_again(
    history: list[Change], change: Change
) -> None:
    def state() -> RegistryState:
        state = RegistryState(READER)
        for each in history:
            carry_out(state, decide(state, each))
        return state

    whole = state()
    decision = decide(whole, change)
    carry_out(whole, decision)
    assert decide(whole, change).effects == ()
    for done in range(len(decision.effects)):
        part = state()
        carry_out(part, decision, done)
        carry_out(part, decide(part, change))
        versions, settings, next_id = observed(part)
        live = {name: [each for each in held if not each.deleted] for name, held in versions.items()}
        wanted, wanted_settings, wanted_id = observed(whole)
        assert {name: held for name, held in live.items() if held} == {
            name: [each for each in held if not each.deleted]
            for name, held in wanted.items()
            if any(not each.deleted for each in held)
        }
        assert (settings, next_id) == (wanted_settings, wanted_id)


def test_a_life_of_a_subject() -> None:
    state = after(INT, LONG)
    assert decide(state, INT).reply == (1, 1)
    assert refused(state, DeleteVersion(subject="a", version=1, permanent=True)) == "version_not_deleted"
    assert refused(state, DeleteSubject(subject="a", permanent=True)) == "subject_not_deleted"
    carry_out(state, decide(state, DeleteVersion(subject="a", version=1)))
    assert refused(state, DeleteVersion(subject="a", version=1)) == "version_deleted"
    assert refused(state, DeleteVersion(subject="a", version=3)) == "version_not_found"
    assert refused(state, DeleteVersion(subject="b", version=1)) == "subject_not_found"
    assert decide(state, DeleteSubject(subject="a")).reply == (2,)
    carry_out(state, decide(state, DeleteSubject(subject="a")))
    assert refused(state, DeleteSubject(subject="a")) == "subject_deleted"
    assert state.subjects() == []
    # What was deleted keeps its place: the next version comes after it.
    assert decide(state, register("a", '"string"')).reply == (3, 3)
    assert decide(state, REMOVAL[1]).reply == (1, 2)
    carry_out(state, decide(state, REMOVAL[1]))
    assert refused(state, REMOVAL[1]) == "subject_not_found"
    # Versions begin again, ids do not.
    assert decide(state, LONG).reply == (3, 1)


def test_a_version_is_held_by_those_that_refer_to_it() -> None:
    base = register("a", '{"type":"record","name":"A","fields":[]}')
    reference = Reference(name="A", subject="a", version=1)
    holder = register("b", '["null","A"]', reference)
    assert refused(after(), holder) == "invalid_schema"
    state = after(base, holder)
    assert refused(state, DeleteVersion(subject="a", version=1)) == "reference_exists"
    assert refused(state, DeleteSubject(subject="a")) == "reference_exists"
    carry_out(state, decide(state, DeleteSubject(subject="b")))
    # A deleted schema may come back, so what it refers to can be deleted, but not for good.
    carry_out(state, decide(state, DeleteSubject(subject="a")))
    assert refused(state, DeleteSubject(subject="a", permanent=True)) == "reference_exists"
    assert refused(state, DeleteVersion(subject="a", version=1, permanent=True)) == "reference_exists"
    carry_out(state, decide(state, DeleteSubject(subject="b", permanent=True)))
    carry_out(state, decide(state, DeleteSubject(subject="a", permanent=True)))
    assert state.subjects(deleted=True) == []


def test_a_subject_may_refer_to_itself_and_be_deleted() -> None:
    base = register("a", '{"type":"record","name":"A","fields":[]}')
    later = register("a", '["null","A"]', Reference(name="A", subject="a", version=1))
    state = after(SetConfig(subject="a", level=Level.NONE), base, later, *REMOVAL)
    assert (state.subjects(deleted=True), state.config("a")) == ([], None)


def test_compatibility_goes_through_references() -> None:
    old = register("a", '{"type":"record","name":"A","fields":[]}')
    new = register("a", '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}')
    state = after(SetConfig(subject="a", level=Level.NONE), old, new)
    first, second = (Reference(name="A", subject="a", version=each) for each in (1, 2))
    carry_out(state, decide(state, register("b", '["null","A"]', first)))
    assert refused(state, register("b", '["null","A"]', second)) == "incompatible_schema"
    carry_out(state, decide(state, SetConfig(subject="b", level=Level.FORWARD)))
    assert decide(state, register("b", '["null","A"]', second)).reply == (4, 2)


def test_a_schema_without_references_finds_one_in_which_the_types_come_from_them() -> None:
    base = register("a", '{"type":"record","name":"A","fields":[]}')
    state = after(base, register("b", '["null","A"]', Reference(name="A", subject="a", version=1)))
    whole = register("b", '["null",{"type":"record","name":"A","fields":[]}]')
    assert decide(state, whole) == Decision(reply=(2, 1))


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.READONLY_OVERRIDE])
def test_a_read_only_subject_does_not_change(mode: Mode) -> None:
    state = after(INT, SetMode(subject="a", mode=mode))
    for change in (LONG, REMOVAL[0], DeleteVersion(subject="a", version=1)):
        assert refused(state, change) == "change_not_permitted"
    assert refused(state, SetConfig(subject="a", level=Level.FULL)) == "change_not_permitted"
    # What is there is found, and other subjects change.
    assert decide(state, INT).reply == (1, 1)
    assert decide(state, register("b", '"long"')).reply == (2, 1)
    carry_out(state, decide(state, RemoveMode(subject="a")))
    assert decide(state, LONG).reply == (2, 2)


def test_read_only_for_all_outranks_the_mode_of_a_subject_only_if_it_says_so() -> None:
    state = after(SetMode(subject="a", mode=Mode.READWRITE), SetMode(subject=None, mode=Mode.READONLY))
    assert decide(state, INT).reply == (1, 1)
    carry_out(state, decide(state, SetMode(subject=None, mode=Mode.READONLY_OVERRIDE)))
    assert refused(state, INT) == "change_not_permitted"
    carry_out(state, decide(state, RemoveMode(subject=None, recursive=True)))
    assert (state.mode("a"), state.own_mode("a")) == (Mode.READWRITE, None)


def test_importing_keeps_ids_and_versions() -> None:
    assert refused(after(), register("a", '"int"', id=7)) == "change_not_permitted"
    assert refused(after(INT), SetMode(subject="a", mode=Mode.IMPORT)) == "change_not_permitted"
    assert after(INT, SetMode(subject="a", mode=Mode.IMPORT, force=True)).mode("a") is Mode.IMPORT
    # Deleted versions go when importing begins.
    state = after(INT, REMOVAL[0], SetMode(subject="a", mode=Mode.IMPORT))
    assert state.subjects(deleted=True) == []
    carry_out(state, decide(state, register("a", '"int"', id=70, version=5)))
    carry_out(state, decide(state, register("a", '"string"', id=60)))
    assert [(each.version, each.id) for each in state.versions("a")] == [(5, 70), (6, 60)]
    assert decide(state, register("a", '"int"', id=70, version=5)) == Decision(reply=(70, 5))
    assert refused(state, register("a", '"long"', id=70)) == "change_not_permitted"
    assert refused(state, register("a", '"long"', id=80, version=5)) == "change_not_permitted"
    # Without an id nothing is taken but what is there.
    assert decide(state, register("a", '"int"')).reply == (70, 5)
    assert refused(state, register("a", '"long"')) == "change_not_permitted"
    carry_out(state, decide(state, SetMode(subject="a", mode=Mode.READWRITE)))
    assert decide(state, register("b", '"bytes"')).reply == (71, 1)


def test_a_given_version_is_the_next_one_or_the_one_that_is_there() -> None:
    state = after(INT)
    assert decide(state, register("a", '"int"', version=1)).reply == (1, 1)
    assert decide(state, register("a", '"long"', version=2)).reply == (2, 2)
    assert refused(state, register("a", '"long"', version=3)) == "invalid_schema"


def test_a_schema_that_another_registry_let_in_stops_only_its_own_subject() -> None:
    state = after(INT)
    state.replay(SchemaRecord(subject="odd", version=1, id=5, schema="no schema at all"))
    assert decide(state, LONG).reply == (6, 2)
    assert refused(state, register("odd", '"int"')) == "incompatible_schema"
    assert decide(state, DeleteSubject(subject="odd")).reply == (1,)


def test_references_that_lead_in_a_circle_are_an_error() -> None:
    """Another registry may have written them."""
    state = after()
    for one, other in (("a", "b"), ("b", "a")):
        references = (Reference(name=other, subject=other, version=1),)
        state.replay(SchemaRecord(subject=one, version=1, id=1, schema='"int"', references=references))
    assert (
        refused(state, register("c", '"a"', Reference(name="a", subject="a", version=1))) == "invalid_schema"
    )
