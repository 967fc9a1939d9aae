"""Several registries on one log without transactions: whatever the order, the crashes and the compaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from headrace.registry.changes import (
    Change,
    DeleteSubject,
    DeleteVersion,
    Register,
    RemoveConfig,
    SetConfig,
    SetMode,
)
from headrace.registry.decisions import Decision, decide
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.records import (
    Effect,
    ProposalRecord,
    RetiredProposalRecord,
    SchemaRecord,
    WrittenRecord,
    decode_record,
    encode_key,
    encode_value,
)
from headrace.registry.schema import Reference
from headrace.registry.schema_reading import SchemaReader
from headrace.registry.state import RegistryState

SUBJECTS = st.sampled_from(["a", "b"])
SCHEMAS = st.sampled_from(['"int"', '"long"', '["int","string"]', '{"type":"array","items":"int"}'])
REFERRING = Register(
    subject="r",
    schema_type="AVRO",
    schema='{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}',
    references=(Reference(name="x", subject="a", version=1),),
)
REGISTRATIONS = st.builds(Register, subject=SUBJECTS, schema_type=st.just("AVRO"), schema=SCHEMAS)
DELETIONS: st.SearchStrategy[Change] = st.one_of(
    st.builds(DeleteVersion, subject=SUBJECTS, version=st.integers(1, 2), permanent=st.booleans()),
    st.builds(DeleteSubject, subject=st.sampled_from(["a", "b", "r"]), permanent=st.booleans()),
)
MODES = st.sampled_from([Mode.READWRITE, Mode.READWRITE, Mode.READWRITE, Mode.IMPORT, Mode.READONLY])
SETTINGS: st.SearchStrategy[Change] = st.one_of(
    st.builds(SetConfig, subject=SUBJECTS, level=st.sampled_from([Level.NONE, Level.NONE, Level.FULL])),
    st.builds(RemoveConfig, subject=SUBJECTS),
    st.builds(SetMode, subject=SUBJECTS, mode=MODES, force=st.booleans()),
)
CHANGES = st.one_of(REGISTRATIONS, REGISTRATIONS, DELETIONS, DELETIONS, SETTINGS, st.just(REFERRING))


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Several changes of one subject, such as a whole life: registered, deleted, removed, and there again."""
    subject = draw(SUBJECTS)
    life: list[Change] = [
        Register(subject=subject, schema_type="AVRO", schema=draw(SCHEMAS)),
        DeleteSubject(subject=subject),
        DeleteSubject(subject=subject, permanent=True),
        Register(subject=subject, schema_type="AVRO", schema=draw(SCHEMAS)),
    ]
    return life[draw(st.integers(0, 2)) :] if draw(st.booleans()) else draw(st.lists(CHANGES, max_size=4))


# All simulated registries read the same few schemas.
READER = SchemaReader()
_Write = tuple[WrittenRecord, int | None]


def observed(state: RegistryState) -> Any:
    subjects = {subject: state.versions(subject, deleted=True) for subject in state.subjects(deleted=True)}
    levels = {subject: (state.config(subject), state.own_mode(subject)) for subject in ("a", "b", "r")}
    return subjects, levels, state.next_id()


def outcome(decision: Decision) -> Any:
    return decision.reply, decision.refusal and (decision.refusal.code, decision.refusal.message)


@dataclass
class Log:
    """The topic: records by offset, of which compaction takes some away."""

    end: int = 0
    held: dict[int, tuple[bytes, bytes | None, int | None]] = field(default_factory=dict)
    # What holds once all proposals are carried out, by the rule alone: one after the other.
    truth: RegistryState = field(default_factory=lambda: RegistryState(READER))
    decisions: dict[str, Decision] = field(default_factory=dict)
    schemas: dict[int, str] = field(default_factory=dict)

    def append(self, record: WrittenRecord, turn: int | None) -> None:
        if isinstance(record, ProposalRecord):
            decision = decide(self.truth, record.change)
            self.decisions[record.proposal] = decision
            for effect in decision.effects:
                self.truth.replay(effect)
                if isinstance(effect, SchemaRecord):
                    known = self.schemas.setdefault(effect.id, effect.schema)
                    assert known == effect.schema, "one id, two schemas"
        self.held[self.end] = encode_key(record), encode_value(record), turn
        self.end += 1

    def compact(self, clean_to: int, *, drop_tombstones: bool) -> None:
        last = {self.held[offset][0]: offset for offset in sorted(self.held) if offset < clean_to}
        for offset in [each for each in self.held if each < clean_to]:
            key, value, _ = self.held[offset]
            if last[key] != offset or (value is None and drop_tombstones):
                del self.held[offset]


@dataclass
class SimulatedRegistry:
    """What `Registry` does, one step at a time."""

    log: Log
    repairs: list[_Write]
    read_to: int = 0
    state: RegistryState = field(default_factory=lambda: RegistryState(READER))
    wanted: Change | None = None
    proposal: str = ""
    decisions: dict[str, Decision] = field(default_factory=dict)
    planned: list[_Write] = field(default_factory=list)

    def read(self, up_to: int) -> None:
        while self.read_to < up_to:
            if self.read_to in self.log.held:
                key, value, turn = self.log.held[self.read_to]
                held = self.state.replay(decode_record(key, value), offset=self.read_to, turn=turn)
                if held is not None:
                    self.repairs.append((held, self.state.turn_of(held)))
            self.read_to += 1

    def carry_out(self) -> bool:
        """Plan what the first open proposal needs; False if there is none."""
        first = self.state.first_open()
        if first is None:
            return False
        decision = decide(self.state, first.record.change)
        self.decisions.setdefault(first.record.proposal, decision)
        self.planned = [(effect, first.turn) for effect in decision.effects]
        if not self.planned:
            self.planned = [(RetiredProposalRecord(proposal=first.record.proposal), None)]
        return True


class Registries(RuleBasedStateMachine):
    """Registries that read, write, lag and die in any order, on a log that is compacted at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.all: list[SimulatedRegistry] = []
        self.proposals = 0
        self.in_flight: list[_Write] = []
        self.repairs: list[_Write] = []

    registries = Bundle("registries")

    def _new(self) -> SimulatedRegistry:
        registry = SimulatedRegistry(self.log, self.repairs)
        self.all.append(registry)
        return registry

    @initialize(target=registries)
    def first(self) -> SimulatedRegistry:
        return self._new()

    @rule(target=registries)
    def another(self) -> SimulatedRegistry:
        return self._new()

    @rule(registry=registries, change=CHANGES)
    def ask(self, registry: SimulatedRegistry, change: Change) -> None:
        if registry.wanted is None:
            registry.wanted = change

    @rule(registry=registries, share=st.floats(0, 1))
    def lag(self, registry: SimulatedRegistry, share: float) -> None:
        registry.read(registry.read_to + int(share * (self.log.end - registry.read_to)))

    @rule(registry=registries)
    def step(self, registry: SimulatedRegistry) -> None:
        """Write what was planned, or read to the end and plan."""
        if registry.planned:
            self.log.append(*registry.planned.pop(0))
            return
        registry.read(self.log.end)
        if registry.wanted is None:
            return
        if registry.proposal and not registry.state.is_open(registry.proposal):
            own = registry.decisions.get(registry.proposal)
            if own is not None:
                wanted = self.log.decisions[registry.proposal]
                # Decided on what another had already written, a deletion finds less to do, or nothing.
                if wanted.refusal is not None or isinstance(registry.wanted, Register):
                    assert outcome(own) == outcome(wanted)
            registry.wanted, registry.proposal = None, ""
        elif registry.carry_out():
            pass
        elif not registry.proposal:
            if not decide(registry.state, registry.wanted).effects:
                registry.wanted = None
                return
            self.proposals += 1
            registry.proposal = f"p{self.proposals}"
            registry.planned = [(ProposalRecord(proposal=registry.proposal, change=registry.wanted), None)]
        else:
            # Its proposal was lost on the way.
            registry.proposal = ""

    @rule(
        one=registries,
        other=registries,
        changes=st.lists(CHANGES, min_size=2, max_size=2),
        order=st.lists(st.booleans(), min_size=6, max_size=20),
    )
    def race(
        self, one: SimulatedRegistry, other: SimulatedRegistry, changes: list[Change], order: list[bool]
    ) -> None:
        """Two that want something at the same time, step by step: rare if left to chance."""
        for registry, change in zip((one, other), changes, strict=True):
            self.ask(registry, change)
        for is_first in order:
            self.step(one if is_first else other)

    @rule(registry=registries, changes=histories())
    def do(self, registry: SimulatedRegistry, changes: list[Change]) -> None:
        """One after the other, each to its end."""
        for change in changes:
            self.ask(registry, change)
            while registry.wanted is not None or registry.planned:
                self.step(registry)

    @rule(registry=registries, change=CHANGES, steps=st.integers(1, 6))
    def begin(self, registry: SimulatedRegistry, change: Change, steps: int) -> None:
        self.ask(registry, change)
        for _ in range(steps):
            self.step(registry)

    @rule(registry=registries, changes=histories())
    def do_more(self, registry: SimulatedRegistry, changes: list[Change]) -> None:
        """What happens most of the time."""
        self.do(registry, changes)

    @rule(registry=registries)
    def lose_an_acknowledgement(self, registry: SimulatedRegistry) -> None:
        """What it wrote may land later, or never; it goes on from what the log holds."""
        self.in_flight += registry.planned
        registry.planned = []

    @rule(registry=registries)
    def crash(self, registry: SimulatedRegistry) -> None:
        self.in_flight += registry.planned
        registry.__init__(self.log, self.repairs)  # type: ignore[misc]

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        if self.in_flight:
            self.log.append(*self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1))))

    @rule(share=st.sampled_from([0.5, 0.9, 1.0]), drop=st.booleans())
    def compact(self, share: float, drop: bool) -> None:
        """The cleaner comes long after records were read, and written over if they came too late."""
        for registry in self.all:
            registry.read(self.log.end)
        self._land_repairs()
        is_quiet = not self.in_flight and not any(each.planned for each in self.all)
        self.log.compact(int(share * self.log.end), drop_tombstones=drop and is_quiet)

    def _land_repairs(self) -> None:
        while self.repairs:
            self.log.append(*self.repairs.pop())

    @invariant()
    def whoever_comes_last_finds_what_the_rule_says(self) -> None:
        fresh = SimulatedRegistry(self.log, [])
        fresh.read(self.log.end)
        # Carried out in its memory alone.
        while (first := fresh.state.first_open()) is not None:
            for effect in decide(fresh.state, first.record.change).effects:
                fresh.state.replay(effect, offset=self.log.end, turn=first.turn)
            fresh.state.replay(RetiredProposalRecord(proposal=first.record.proposal))
        assert observed(fresh.state) == observed(self.log.truth)

    @rule(one=registries, other=registries)
    def all_know_the_same(self, one: SimulatedRegistry, other: SimulatedRegistry) -> None:
        fresh = SimulatedRegistry(self.log, [])
        for registry in (one, other, fresh):
            registry.read(self.log.end)
        self._land_repairs()
        for registry in (one, other, fresh):
            registry.read(self.log.end)
        assert observed(one.state) == observed(other.state) == observed(fresh.state)


Registries.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=30, deadline=None)
TestRegistries = Registries.TestCase


INT = Register(subject="a", schema_type="AVRO", schema='"int"')
LONG = Register(subject="a", schema_type="AVRO", schema='"long"')
REMOVAL: list[Change] = [DeleteSubject(subject="a"), DeleteSubject(subject="a", permanent=True)]


@given(histories(), CHANGES, histories())
@example([], INT, [DeleteSubject(subject="a")])
@example([INT], REMOVAL[0], [*REMOVAL, LONG])
@example([INT, REMOVAL[0]], REMOVAL[1], [LONG])
@example([], SetConfig(subject="a", level=Level.NONE), [SetConfig(subject="a", level=Level.FULL)])
def test_a_registry_that_is_held_up_and_writes_late_changes_nothing(
    before: list[Change], change: Change, after: list[Change]
) -> None:
    machine = Registries()
    slow, other = machine.first(), machine.another()
    machine.do(slow, before)
    machine.ask(slow, change)
    while slow.wanted is not None and not any(isinstance(record, Effect) for record, _ in slow.planned):
        machine.step(slow)
    # All that it was about to write arrives when others have gone on for long.
    machine.lose_an_acknowledgement(slow)
    machine.do(other, after)
    for late in machine.in_flight:
        machine.log.append(*late)
    machine.in_flight.clear()
    machine.do(machine.another(), [])
    machine.all_know_the_same(slow, other)
    machine.compact(1.0, drop=True)
    machine.whoever_comes_last_finds_what_the_rule_says()


@given(histories(), histories())
@example([LONG], [INT])
def test_ids_are_not_given_again_after_what_had_them_is_forgotten(
    one: list[Change], other: list[Change]
) -> None:
    machine = Registries()
    machine.do(machine.first(), [*one, *REMOVAL])
    machine.compact(1.0, drop=True)
    machine.do(machine.another(), other)
    machine.whoever_comes_last_finds_what_the_rule_says()
