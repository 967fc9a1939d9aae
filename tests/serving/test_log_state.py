"""The statement log as a model: any number of writers that lag, lose acknowledgements and die, on a log that
is compacted at any moment; whoever reads it to its end has the same catalogue.
"""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from headrace.pipeline.catalogue.catalogue import Catalogue, Encoding, PersistentQuery, QueryKind, Source
from headrace.pipeline.catalogue.log_state import RECENT, LogState, apply
from headrace.pipeline.catalogue.records import (
    BEGINNING,
    Effect,
    LogRecord,
    Outcome,
    PauseQuery,
    PutQuery,
    PutSource,
    PutType,
    RemoveQuery,
    RemoveSource,
    RemoveType,
    RetiredRecord,
    SnapshotRecord,
    StatementRecord,
    decode,
    encode,
    key_of,
)
from headrace.pipeline.statements.types import BIGINT, VARCHAR
from tests.serving.samples import catalogues, encodings, queries, sources

names = st.sampled_from(["A", "B", "C"])


def query(sink: str) -> PersistentQuery:
    return PersistentQuery(
        id=f"CSAS_{sink}", kind=QueryKind.CREATE_STREAM, sink=sink, sources=("A",), statement="…"
    )


effects: st.SearchStrategy[Effect] = st.one_of(
    sources.map(lambda source: PutSource(source=source)),
    names.map(lambda name: RemoveSource(name=name)),
    names.map(lambda name: PutQuery(query=query(name))),
    names.map(lambda name: PutQuery(query=query(name), numbered=False)),
    names.map(lambda name: RemoveQuery(id=f"CSAS_{name}")),
    st.builds(lambda name, paused: PauseQuery(id=f"CSAS_{name}", paused=paused), names, st.booleans()),
    st.builds(lambda name, kind: PutType(name=name, type=kind), names, st.sampled_from([BIGINT, VARCHAR])),
    names.map(lambda name: RemoveType(name=name)),
)


class Writer:
    """Reads a log record by record, and has a state of its own."""

    def __init__(self) -> None:
        self.state = LogState()
        self.read_to = 0

    def read(self, log: dict[int, LogRecord], end: int) -> None:
        for offset in sorted(log):
            if self.read_to <= offset < end:
                self.state.replay(offset, log[offset])
        self.read_to = max(self.read_to, end)


class AgreeingWriters(RuleBasedStateMachine):
    writers = Bundle("writers")

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, LogRecord] = {}
        self.end = 0
        self.written = 0
        # What everybody has to agree on: each statement judged when it came, on a log that loses nothing.
        self.last = BEGINNING
        self.catalogue = Catalogue()
        self.counting: list[str] = []

    def append(self, record: StatementRecord | SnapshotRecord | RetiredRecord) -> None:
        offset, self.end = self.end, self.end + 1
        self.log[offset] = decode(*encode(record))
        if isinstance(record, StatementRecord) and record.after == self.last:
            self.last = offset
            self.counting.append(record.id)
            for effect in record.effects:
                self.catalogue = apply(self.catalogue, effect, offset)

    @rule(target=writers)
    def start(self) -> Writer:
        return Writer()

    @rule(target=writers, writer=writers)
    def fork(self, writer: Writer) -> Writer:
        """One that stays where it is while the other reads on."""
        return copy.deepcopy(writer)

    @rule(writer=writers, share=st.floats(0, 1))
    def lag(self, writer: Writer, share: float) -> None:
        writer.read(self.log, writer.read_to + int((self.end - writer.read_to) * share))

    @rule(
        target=writers,
        writer=writers,
        changes=st.lists(effects, min_size=1, max_size=3),
        times=st.integers(1, 2),
        others=st.lists(effects, max_size=2),
    )
    def write(self, writer: Writer, changes: list[Effect], times: int, others: list[Effect]) -> object:
        """Decided at the end of the log; other statements may come before it is written."""
        writer.read(self.log, self.end)
        after = writer.state.last
        for other in others:
            self.append_statement(self.last, (other,))
        for _ in range(times):
            self.append_statement(after, tuple(changes))
        return multiple()

    def append_statement(self, after: int, changes: tuple[Effect, ...]) -> None:
        self.written += 1
        self.append(
            StatementRecord(
                id=str(self.written),
                after=after,
                text="…",
                command=f"stream/{self.written}/create",
                message="",
                effects=changes,
            )
        )

    @rule(writer=writers, delayed=st.lists(effects, max_size=2), takes_back=st.booleans())
    def snapshot(self, writer: Writer, delayed: list[Effect], takes_back: bool) -> None:
        writer.read(self.log, self.end)
        record = writer.state.snapshot()
        for change in delayed:
            self.append_statement(self.last, (change,))
            self.append_statement(BEGINNING, (change,))
        if record.of == BEGINNING:
            return
        self.append(record)
        if takes_back:
            self.take_back(writer, 100)

    @rule(writer=writers, most=st.integers(0, 3))
    def take_back(self, writer: Writer, most: int) -> None:
        writer.read(self.log, self.end)
        for key in writer.state.superfluous()[:most]:
            self.append(RetiredRecord(key=key))

    @rule(share=st.floats(0, 1), drops_tombstones=st.booleans())
    def compact(self, share: float, drops_tombstones: bool) -> None:
        until = int(self.end * share)
        newest = {key_of(record): offset for offset, record in self.log.items() if offset < until}  # type: ignore[arg-type]
        for offset, record in list(self.log.items()):
            superseded = newest.get(key_of(record), offset) > offset  # type: ignore[arg-type]
            tombstone = isinstance(record, RetiredRecord) and offset < until and drops_tombstones
            if superseded or tombstone:
                del self.log[offset]

    @invariant()
    def a_new_reader_agrees(self) -> None:
        reader = Writer()
        reader.read(self.log, self.end)
        assert reader.state.last == self.last
        assert reader.state.catalogue == self.catalogue
        assert all(reader.state.outcome(statement) for statement in self.counting[-RECENT:])
        assert len(reader.state.commands()) == len(self.counting[-RECENT:])

    @rule(writer=writers)
    def an_old_reader_agrees(self, writer: Writer) -> None:
        writer.read(self.log, self.end)
        assert writer.state.last == self.last
        assert writer.state.catalogue == self.catalogue


TestAgreeingWriters = AgreeingWriters.TestCase
TestAgreeingWriters.settings = settings(max_examples=150, stateful_step_count=30)


@given(catalogues, st.lists(effects, max_size=4))
def test_records_are_read_as_they_were_written(catalogue: Catalogue, changes: list[Effect]) -> None:
    statement = StatementRecord(
        id="1", after=7, text="CREATE …;", command="stream/A/create", message="m", effects=tuple(changes)
    )
    assert decode(*encode(statement)) == statement
    done = Outcome(statement="1", offset=7, command="c", message="m", query_id=None)
    snapshot = SnapshotRecord(of=9, catalogue=catalogue, recent=(done,))
    assert decode(*encode(snapshot)) == snapshot


@given(st.lists(effects, min_size=1, max_size=8), st.integers(0, 8))
def test_replay_of_any_prefix_gives_what_execution_gave(changes: list[Effect], length: int) -> None:
    state = LogState()
    seen = [state.catalogue]
    log: list[tuple[int, StatementRecord]] = []
    for number, change in enumerate(changes):
        record = StatementRecord(
            id=str(number), after=state.last, text="…", command=f"c/{number}/x", message="", effects=(change,)
        )
        log.append((number, record))
        state.replay(number, record)
        seen.append(state.catalogue)
    again = LogState()
    for offset, record in log[:length]:
        again.replay(offset, record)
    assert again.catalogue == seen[min(length, len(changes))]


def test_a_query_gets_the_offset_of_its_statement_into_its_id() -> None:
    state = LogState()
    record = StatementRecord(
        id="x",
        after=BEGINNING,
        text="…",
        command="stream/A/create",
        message="Created query with ID {query}",
        effects=(PutQuery(query=query("A")),),
    )
    state.replay(7, record)
    assert list(state.catalogue.queries) == ["CSAS_A_7"]
    outcome = state.outcome("x")
    assert outcome is not None
    assert (outcome.query_id, outcome.message) == ("CSAS_A_7", "Created query with ID CSAS_A_7")


def test_what_makes_no_sense_is_passed_over() -> None:
    state = LogState()
    for key, value in ((None, b"x"), (b"statement/1", b"{}"), (b"snapshot/x", b"{}"), (b"new/1", b"{}")):
        state.replay(0, decode(key, value))
    assert state.catalogue == Catalogue()


def test_a_snapshot_puts_right_what_compaction_made_look_valid() -> None:
    def statement(name: str, after: int) -> StatementRecord:
        change = PutType(name=name, type=BIGINT)
        return StatementRecord(
            id=name, after=after, text="…", command=f"type/{name}/create", message="", effects=(change,)
        )

    whole: list[LogRecord] = [
        statement("FIRST", BEGINNING),
        statement("SECOND", 0),
        # Written by one that was too slow: it does not count, as long as the first is there.
        statement("LATE", BEGINNING),
    ]
    state = LogState()
    for offset, record in enumerate(whole):
        state.replay(offset, record)
    whole += [SnapshotRecord(of=1, catalogue=state.catalogue), RetiredRecord(key="statement/FIRST")]
    compacted = LogState()
    for offset, record in list(enumerate(whole))[1:]:
        compacted.replay(offset, record)
    assert compacted.catalogue == state.catalogue == Catalogue(types={"FIRST": BIGINT, "SECOND": BIGINT})
    assert set(compacted.superfluous()) == {"statement/SECOND"}


def test_every_field_of_the_catalogue_is_drawn_in_these_tests() -> None:
    """A field that somebody adds has to be in the records, and in `samples.py`."""
    drawn = {
        Source: {*Source.__dataclass_fields__},
        Encoding: {*Encoding.__dataclass_fields__},
        PersistentQuery: {*PersistentQuery.__dataclass_fields__},
    }
    for value, strategy in ((Source, sources), (Encoding, encodings), (PersistentQuery, queries)):
        assert set(strategy.wrapped_strategy.kwargs) == drawn[value]  # type: ignore[attr-defined]
