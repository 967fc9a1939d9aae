"""Several registries on one log without transactions: whatever the order, the crashes and the compaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from headrace.registry.proposals import outcomes, propose
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from headrace.registry.avro.reading import read_avro
from headrace.registry.compatibility import incompatibility
from headrace.registry.level import Level
from headrace.registry.records import (
    ProposalRecord,
    RetiredProposalRecord,
    SchemaRecord,
    WrittenRecord,
    decode_record,
    encode_key,
    encode_value,
)
from headrace.registry.state import RegistryState

SUBJECTS = ["a", "b"]
SCHEMAS = ['"int"', '"long"', '{"type":"int"}', '["int","string"]', '{"type":"array","items":"int"}']
LEVEL = Level.BACKWARD_TRANSITIVE


def identity(schema: str) -> str:
    return read_avro(schema).identity


@cache
def may_follow(schema: str, old: str) -> bool:
    record = SchemaRecord(subject="", version=1, id=1, schema=old)
    return incompatibility(LEVEL, read_avro(schema), [record]) is None


def observed(state: RegistryState) -> Any:
    subjects = {subject: state.versions(subject) for subject in state.subjects()}
    return subjects, {schema_id: state.usages(schema_id) for schema_id in range(1, 40)}


def proposal(key: str, subject: str, schema: str, *, version: int = 1, schema_id: int = 1) -> ProposalRecord:
    return ProposalRecord(proposal=key, subject=subject, version=version, id=schema_id, schema=schema)


def test_earlier_proposals_choose_first() -> None:
    state = RegistryState()
    state.replay(proposal("p", "a", '"int"'))
    state.replay(proposal("q", "a", '"long"', version=2))
    state.replay(proposal("r", "b", '{"type":"int"}'))
    state.replay(proposal("s", "a", '{"type":"int"}'))
    found = outcomes(state)
    assert found["p"] == found["s"] == SchemaRecord(subject="a", version=1, id=1, schema='"int"')
    assert found["q"] == SchemaRecord(subject="a", version=2, id=2, schema='"long"')
    assert found["r"] == SchemaRecord(subject="b", version=1, id=1, schema='"int"')


def test_a_proposal_whose_version_is_taken_is_void_since_its_schema_was_held_against_others() -> None:
    state = RegistryState()
    state.replay(proposal("p", "a", '"int"'))
    state.replay(proposal("q", "a", '"long"'))
    assert outcomes(state).keys() == {"p"}
    state.replay(outcomes(state)["p"])
    state.replay(RetiredProposalRecord(proposal="p"))
    assert outcomes(state) == {}


def test_a_proposal_shows_only_once_it_is_a_schema_record() -> None:
    state = RegistryState()
    state.replay(proposal("p", "a", '"int"'))
    assert (state.subjects(), state.schema(1)) == ([], None)
    state.replay(outcomes(state)["p"])
    assert state.subjects() == ["a"]
    assert (outcomes(state), state.fulfilled_proposals()) == ({}, ["p"])
    state.replay(RetiredProposalRecord(proposal="p"))
    assert state.fulfilled_proposals() == []


def test_an_outcome_does_not_change_when_a_later_one_is_written_first() -> None:
    state = RegistryState()
    for version, (key, schema) in enumerate((("p", '"int"'), ("q", '"long"'), ("r", '"float"')), start=1):
        state.replay(proposal(key, "a", schema, version=version))
    before = outcomes(state)
    state.replay(before["r"])
    assert outcomes(state) == {"p": before["p"], "q": before["q"]}


def test_an_id_that_a_schema_has_under_several_spellings_does_not_depend_on_their_order() -> None:
    one = SchemaRecord(subject="x", version=1, id=3, schema='"int"')
    other = SchemaRecord(subject="y", version=1, id=2, schema='{"type":"int"}')
    for records in ((one, other), (other, one)):
        state = RegistryState()
        for record in records:
            state.replay(record)
        state.replay(proposal("p", "a", '"int"', schema_id=4))
        assert outcomes(state)["p"].id == 2


@dataclass
class Log:
    """The topic: records by offset, of which compaction takes some away."""

    end: int = 0
    held: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    schema_records: dict[bytes, bytes] = field(default_factory=dict)

    def append(self, record: WrittenRecord) -> None:
        key, value = encode_key(record), encode_value(record)
        if isinstance(record, SchemaRecord):
            assert value is not None
            assert self.schema_records.setdefault(key, value) == value, "two contents under one key"
        self.held[self.end] = key, value
        self.end += 1

    def compact(self, clean_to: int, *, drop_tombstones: bool) -> None:
        last = {self.held[offset][0]: offset for offset in sorted(self.held) if offset < clean_to}
        for offset in [each for each in self.held if each < clean_to]:
            key, value = self.held[offset]
            if last[key] != offset or (value is None and drop_tombstones):
                del self.held[offset]


@dataclass
class SimulatedRegistry:
    """What `Registry` does, one step at a time."""

    log: Log
    read_to: int = 0
    state: RegistryState = field(default_factory=RegistryState)
    wanted: tuple[str, str] | None = None
    proposal: str = ""
    planned: list[WrittenRecord] = field(default_factory=list)

    def read(self, up_to: int) -> None:
        while self.read_to < up_to:
            if self.read_to in self.log.held:
                self.state.replay(decode_record(*self.log.held[self.read_to]))
            self.read_to += 1


class Registries(RuleBasedStateMachine):
    """Registries that read, write, lag and die in any order, on a log that is compacted at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.proposals = 0
        self.answers: set[tuple[str, str, int]] = set()
        self.in_flight: list[WrittenRecord] = []

    registries = Bundle("registries")

    @initialize(target=registries)
    def first(self) -> SimulatedRegistry:
        return SimulatedRegistry(self.log)

    @rule(target=registries)
    def another(self) -> SimulatedRegistry:
        return SimulatedRegistry(self.log)

    @rule(registry=registries, subject=st.sampled_from(SUBJECTS), schema=st.sampled_from(SCHEMAS))
    def ask(self, registry: SimulatedRegistry, subject: str, schema: str) -> None:
        if registry.wanted is None:
            registry.wanted = subject, schema

    @rule(registry=registries, share=st.floats(0, 1))
    def lag(self, registry: SimulatedRegistry, share: float) -> None:
        registry.read(registry.read_to + int(share * (self.log.end - registry.read_to)))

    @rule(registry=registries)
    def step(self, registry: SimulatedRegistry) -> None:
        """Write what was planned, or read to the end and plan."""
        if registry.planned:
            self.log.append(registry.planned.pop(0))
            return
        registry.read(self.log.end)
        if registry.wanted is None:
            return
        subject, schema = registry.wanted
        found = registry.state.find(subject, identity(schema))
        if found is not None:
            self.answers.add((subject, identity(schema), found.id))
            registry.planned = [
                RetiredProposalRecord(proposal=key) for key in registry.state.fulfilled_proposals()
            ]
            registry.wanted, registry.proposal = None, ""
            return
        outcome = outcomes(registry.state).get(registry.proposal)
        if outcome is not None:
            registry.planned = [outcome]
            return
        if registry.proposal:
            # Void or lost: who was faster may be gone, and its record be left for others to write.
            registry.proposal = ""
            registry.planned = list(outcomes(registry.state).values())
            return
        versions = registry.state.versions(subject)
        if not all(may_follow(schema, old.schema) for old in versions):
            registry.wanted = None
            return
        self.proposals += 1
        registry.proposal = f"p{self.proposals}"
        wish = propose(registry.state, registry.proposal, subject, read_avro(schema))
        assert wish is not None
        registry.planned = [wish]

    @rule(
        one=registries,
        other=registries,
        schemas=st.lists(st.sampled_from(SCHEMAS), min_size=2, max_size=2),
        order=st.lists(st.booleans(), min_size=6, max_size=16),
    )
    def race(
        self, one: SimulatedRegistry, other: SimulatedRegistry, schemas: list[str], order: list[bool]
    ) -> None:
        """Two that want different schemas of one subject, step by step: rare if left to chance."""
        for registry, schema in zip((one, other), schemas, strict=True):
            self.ask(registry, SUBJECTS[0], schema)
        for is_first in order:
            self.step(one if is_first else other)

    @rule(registry=registries)
    def finish_what_others_left(self, registry: SimulatedRegistry) -> None:
        if not registry.planned:
            registry.read(self.log.end)
            registry.planned = list(outcomes(registry.state).values())

    @rule(registry=registries)
    def lose_an_acknowledgement(self, registry: SimulatedRegistry) -> None:
        """What it wrote may land later, or never; it goes on from what the log holds."""
        self.in_flight += registry.planned
        registry.planned = []

    @rule(registry=registries)
    def crash(self, registry: SimulatedRegistry) -> None:
        self.in_flight += registry.planned
        registry.__init__(self.log)  # type: ignore[misc]

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        if self.in_flight:
            self.log.append(self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1))))

    @rule(share=st.floats(0, 1), drop=st.booleans())
    def compact(self, share: float, drop: bool) -> None:
        self.log.compact(int(share * self.log.end), drop_tombstones=drop)

    @invariant()
    def what_was_answered_holds_for_ever(self) -> None:
        fresh = SimulatedRegistry(self.log)
        fresh.read(self.log.end)
        ids: dict[str, set[int]] = {}
        for subject, wanted, schema_id in self.answers:
            found = fresh.state.schema(schema_id)
            assert found is not None
            assert identity(found.schema) == wanted
            version = fresh.state.find(subject, wanted)
            assert version is not None
            assert version.id == schema_id
            ids.setdefault(wanted, set()).add(schema_id)
        assert all(len(given) == 1 for given in ids.values())
        # And every version was held to the level, whoever raced.
        for subject in fresh.state.subjects():
            versions = fresh.state.versions(subject)
            for number, version in enumerate(versions):
                assert all(may_follow(version.schema, old.schema) for old in versions[:number])

    @rule(one=registries, other=registries)
    def all_know_the_same(self, one: SimulatedRegistry, other: SimulatedRegistry) -> None:
        fresh = SimulatedRegistry(self.log)
        for registry in (one, other, fresh):
            registry.read(self.log.end)
        assert observed(one.state) == observed(other.state) == observed(fresh.state)
        # Each that has an open proposal in mind would write the same.
        known = [outcomes(registry.state) for registry in (one, other, fresh)]
        for found in known:
            assert all(found[key] == known[0][key] for key in found.keys() & known[0].keys())


Registries.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)
TestRegistries = Registries.TestCase


@given(
    st.lists(st.sampled_from(SCHEMAS), min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=8, max_size=20),
)
def test_two_that_race_hold_their_versions_to_the_level(schemas: list[str], order: list[bool]) -> None:
    """What the machine does only now and then."""
    machine = Registries()
    one, other = machine.first(), machine.another()
    machine.race(one, other, schemas, order)
    for registry in (one, other) * 12:
        machine.step(registry)
    assert (one.wanted, other.wanted) == (None, None), "both have an answer"
    machine.what_was_answered_holds_for_ever()
