"""Queries that run on a log, step by step, with everything that can happen to them in between.

The decisions are those of the shipped code (`pipeline/runs/`): where a run resumes, what it finds in its
sinks, which commits it writes. This module has what Spark and Kafka do: batches, producers whose records land
in any order, late or not at all, processes that die, logs that come back shorter. `without` is the clause of
the rule that a mutant leaves out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

from headrace.client.topics import TopicIdentity
from headrace.pipeline.runs import reading_back, witnesses
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.runs.identities import Written
from headrace.pipeline.runs.reading_back import ReadBack, read_back
from headrace.pipeline.runs.recording import Finished, Recording, ends_of_records
from headrace.pipeline.runs.resuming import Resumption, TopicNow, resume, resumed_history
from headrace.pipeline.runs.witnesses import has_records
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.commits import ModelCommitLog
from tests.exactly_once.model.counting import SINK, Count
from tests.exactly_once.model.lake import Lake
from tests.exactly_once.model.log import Log, Partition, Row, Topic
from tests.exactly_once.model.queries import CHAINED, COUNTED, PARTITIONS, STATELESS, Query
from tests.exactly_once.model.reader import ModelCluster, batch_reader_class, reader_class

Sent = tuple[str, Row]


@dataclass(slots=True, kw_only=True)
class Batch:
    number: int
    end: dict[int, int]
    pending: list[Sent]


@dataclass(slots=True, kw_only=True)
class Run:
    query: Query
    ids: dict[str, str]
    partitions: dict[str, int]
    positions: dict[int, int]
    read_back: ReadBack
    # What is not derived again, by source partition.
    written: Mapping[int, Written]
    recording: Recording | None = None
    batch: Batch | None = None
    batches: int = 0
    finished: Finished | None = None


class World:
    """Everything, with the count behind the queries or without it.

    The premise of chains: a derived topic that a query reads is on the disk before it is read, and so is the
    topic of the count, whose rows are known by their place. Such a topic never comes back shorter, though it
    may have a hole at its end. Without the count, nobody but the lake reads `c`, which may lose records then.
    """

    def __init__(
        self,
        without: Clause | None = None,
        *,
        queries: Sequence[Query] = STATELESS,
        has_count: bool = True,
    ) -> None:
        self.without = without
        self.has_count = has_count
        self.queries = {query.name: query for query in queries}
        self.log = Log(reuses_offsets=without is Clause.OFFSETS_ARE_NEVER_USED_AGAIN)
        for name, partitions in PARTITIONS.items():
            self.log.make(name, partitions)
        self.commits = ModelCommitLog(self._altered)
        self.count = Count(self.log, without)
        self.lake = Lake(self.log, without)
        self.recreated: set[str] = set()
        self.runs: dict[str, Run] = {}
        # What a dead run has sent and the log has not taken yet.
        self.under_way: dict[str, list[Sent]] = {}
        # Where the dead run stood, which must not matter.
        self.stood: dict[str, tuple[str, dict[int, int]]] = {}

    # ---- what the outside does

    def produce(self, topic: str, key: str, value: str, partition: int | None = None) -> None:
        self.log.topics[topic].append(Row(key=key, value=value), partition)

    def recreate(self, name: str, partitions: int) -> None:
        """Running queries go on writing by name; those that read it end before they read on."""
        if name == CHAINED:
            # Its records would come again as others, of another topic.
            return
        for query in self.queries.values():
            if query.source == name:
                self.fail(query.name)
        self.log.make(name, partitions)
        self.recreated.add(name)

    # ---- a run

    def start(self, name: str, chance: Random) -> None:
        query = self.queries[name]
        if self.without is not Clause.PREDECESSOR_IS_SILENT:
            self.drain(name, chance)
        source = self.log.topics[query.source]
        sinks = [self.log.topics[sink] for sink in query.sinks]
        history = self.commits.history(name)
        with self._reading(name):
            resumption = resume(
                history,
                None,
                sources=[self._now(source)],
                sinks=[self._now(sink, starts_empty=sink.name in query.sinks[1:]) for sink in sinks],
                has_records=lambda offsets: (
                    self.without is Clause.WITNESS or has_records("", self._identities(sinks), offsets)
                ),
                now=0,
            )
            resumption = self._changed(resumption, query)
            ends = {(sink.name, number): end for sink in sinks for number, end in sink.ends().items()}
            found = read_back(
                "",
                query=name,
                sinks=self._identities(sinks),
                sinks_from=resumption.sinks_from,
                ends=ends,
                positions=resumption.positions,
                with_order=query.is_table,
            )
        if self.without is not Clause.CUT_OFF_NEWER:
            self.commits.replace(name, resumed_history(history, resumption, now=self.commits.clock()))
        run = Run(
            query=query,
            ids={topic.name: self.id_of(topic) for topic in (source, *sinks)},
            partitions={topic.name: len(topic.partitions) for topic in (source, *sinks)},
            positions=dict(resumption.positions[self.id_of(source)]),
            read_back=found,
            written=self._written(query, found, resumption),
        )
        at_start = self._ends(run)
        kept = (
            dataclasses.replace(found, written={}) if self.without is Clause.KEEP_FROM_UNTIL_PASSED else found
        )
        run.recording = Recording(
            name,
            self.commits,  # type: ignore[arg-type]
            resumption=resumption,
            read_back=kept,
            finished=lambda: run.finished,
            ends=lambda: ends_of_records(self._ends(run), at_start, found),
            wall_clock_ms=self.commits.clock,
        )
        self.runs[name] = run

    def begin_batch(self, name: str, sizes: Mapping[int, int]) -> bool:
        """Read up to so many offsets of each partition. Whether there was anything."""
        run = self.runs[name]
        source = self.log.topics[run.query.source]
        end = {
            number: max(position, min(position + sizes.get(number, 0), source.partitions[number].stable_end))
            for number, position in run.positions.items()
        }
        if run.batch is not None or end == run.positions:
            return False
        pending = [
            (sink, derived)
            for number, position in run.positions.items()
            for offset, row in source.partitions[number].read(position, end[number])
            for sink, ordinal, derived in run.query.derived(row, (self.id_of(source), number, offset))
            if not self._is_skipped(run, number, offset, ordinal)
        ]
        run.batch = Batch(number=run.batches, end=end, pending=pending)
        return True

    def land(self, name: str, chance: Random) -> None:
        """One of the records that were sent is in the log."""
        batch = self.runs[name].batch
        if batch is not None and batch.pending:
            self._append(batch.pending.pop(self._next(name, batch.pending, chance)))

    def finish(self, name: str, chance: Random) -> None:
        run = self.runs[name]
        if run.batch is None:
            return
        while run.batch.pending:
            self.land(name, chance)
        run.positions = run.batch.end
        run.finished = Finished(
            batch=run.batch.number, positions={run.ids[run.query.source]: dict(run.positions)}
        )
        run.batches += 1
        run.batch = None

    def record(self, name: str) -> None:
        """The commit, if a batch has finished since."""
        recording = self.runs[name].recording
        assert recording is not None
        recording.note_now()

    def expire(self, name: str, chance: Random) -> None:
        """A record does not land in time; others that were sent still may. It ends the run."""
        batch = self.runs[name].batch
        if batch is not None and batch.pending:
            del batch.pending[chance.randrange(len(batch.pending))]
            self.fail(name)

    def fail(self, name: str) -> None:
        run = self.runs.pop(name, None)
        if run is None:
            return
        if run.batch is not None:
            self.under_way.setdefault(name, []).extend(run.batch.pending)
        end = run.positions if run.batch is None else run.batch.end
        self.stood[name] = (run.ids[run.query.source], dict(end))

    def stop(self, name: str, chance: Random) -> None:
        """A clean stop: the producer is drained, then one last commit."""
        run = self.runs[name]
        self.fail(name)
        self.drain(name, chance)
        assert run.recording is not None
        run.recording.note_now()

    def kill(self) -> None:
        for name in list(self.runs):
            self.fail(name)
        self.count.kill()
        self.lake.kill()

    def drain(self, name: str, chance: Random) -> None:
        """All that is under way lands or never will."""
        sent = self.under_way.pop(name, [])
        while sent:
            each = sent.pop(self._next(name, sent, chance))
            if chance.random() < 0.5:
                self._append(each)

    def land_late(self, name: str, chance: Random) -> None:
        """A record of a dead run lands; if the rule holds, before the next run begins."""
        sent = self.under_way.get(name, [])
        if sent:
            self._append(sent.pop(self._next(name, sent, chance)))

    def is_outdated(self, name: str) -> bool:
        run = self.runs[name]
        return any(
            self.id_of(self.log.topics[topic]) != run.ids[topic]
            or len(self.log.topics[topic].partitions) != run.partitions[topic]
            for topic in run.ids
        )

    def cut_power(self, chance: Random) -> None:
        """The machine goes down: each log loses any part of what was not synced."""
        self.kill()
        self.under_way.clear()
        for topic in self.log.topics.values():
            for partition in topic.partitions:
                if self._is_synced_before_read(topic.name):
                    partition.sync()
                partition.cut(_cut_of(partition, chance))
        self.commits.cut(chance.randint(self.commits.synced, len(self.commits.records)))
        entries = self.count.checkpoint.entries if self.count.checkpoint else []
        self.count.cut(chance.randint(self.count.synced, len(entries)))
        self.lake.cut(chance.randint(self.lake.synced, len(self.lake.versions)))

    def sync(self, chance: Random) -> None:
        """The operating system writes some of what waits to the disk."""
        for topic in self.log.topics.values():
            for partition in topic.partitions:
                if chance.random() < 0.5:
                    partition.sync()
        self.commits.synced = chance.randint(self.commits.synced, len(self.commits.records))
        entries = self.count.checkpoint.entries if self.count.checkpoint else []
        self.count.synced = chance.randint(self.count.synced, len(entries))
        self.lake.synced = chance.randint(self.lake.synced, len(self.lake.versions))

    def sinks(self) -> list[str]:
        return list(dict.fromkeys(sink for query in self.queries.values() for sink in query.sinks))

    # ---- parts

    def _is_synced_before_read(self, topic: str) -> bool:
        if self.without is Clause.SYNCED_BEFORE_READ:
            return False
        return topic == CHAINED or (self.has_count and topic in (COUNTED, SINK))

    def _written(self, query: Query, found: ReadBack, resumption: Resumption) -> Mapping[int, Written]:
        source_id = self.id_of(self.log.topics[query.source])
        written = found.written.get(source_id, {})
        if not query.is_table or self.without is Clause.TABLES_KEEP_ORDER:
            return written
        positions = resumption.positions[source_id]
        orders = found.orders.get(source_id, {})
        looks = self.without is not Clause.TABLES_LOOK_AT_THE_ORDER
        return {
            number: each.unbroken_from(positions[number], orders[number].in_order_below() if looks else None)
            for number, each in written.items()
        }

    def _is_skipped(self, run: Run, partition: int, offset: int, ordinal: int) -> bool:
        written = run.written.get(partition)
        if written is None or self.without is Clause.SKIP_WHAT_IS_WRITTEN:
            return False
        if self.without is Clause.SKIP_EXACTLY:
            return offset < written.end
        return written.has(offset, ordinal)

    def _append(self, sent: Sent) -> None:
        topic, row = sent
        self.log.topics[topic].append(row)

    def _next(self, name: str, pending: list[Sent], chance: Random) -> int:
        """Rows of one key land in their order in a table's topic; all others in any order."""
        if not self.queries[name].is_table:
            return chance.randrange(len(pending))
        chosen = pending[chance.randrange(len(pending))][1].key
        return next(number for number, (_, row) in enumerate(pending) if row.key == chosen)

    def id_of(self, topic: Topic) -> str:
        is_name = self.without in (Clause.SAME_SINKS, Clause.SAME_SOURCES)
        written = any(topic.name in query.sinks for query in self.queries.values())
        if is_name and written == (self.without is Clause.SAME_SINKS):
            return topic.name
        return topic.id

    def _now(self, topic: Topic, *, starts_empty: bool = False) -> TopicNow:
        stretches = {number: (each.start, each.end) for number, each in enumerate(topic.partitions)}
        return TopicNow(
            name=topic.name, topic_id=self.id_of(topic), stretches=stretches, starts_empty=starts_empty
        )

    def _identities(self, topics: Sequence[Topic]) -> list[TopicIdentity]:
        return [
            TopicIdentity(name=each.name, topic_id=self.id_of(each), partitions=len(each.partitions))
            for each in topics
        ]

    def _ends(self, run: Run) -> dict[str, dict[int, int]]:
        ends = {}
        for name in run.query.sinks:
            topic = self.log.topics[name]
            is_start = self.without is not Clause.IDS_OF_THE_START
            ends[run.ids[name] if is_start else self.id_of(topic)] = topic.ends()
        return ends

    def _altered(self, commit: Commit) -> Commit:
        if self.without is Clause.FROM_BEFORE_BATCH:
            return dataclasses.replace(commit, sinks_from=commit.sinks_to)
        if self.without is Clause.TO_AFTER_BATCH:
            return dataclasses.replace(commit, sinks_to=commit.sinks_from)
        return commit

    def _changed(self, resumption: Resumption, query: Query) -> Resumption:
        source = self.log.topics[query.source]
        source_id = self.id_of(source)
        if self.without is Clause.RESUME_AT_COMMIT and query.name in self.stood:
            of_topic, stood = self.stood[query.name]
            if of_topic == source_id:
                positions = {**resumption.positions[source_id], **stood}
                return dataclasses.replace(resumption, positions={source_id: positions})
        if self.without is Clause.NEW_PARTITIONS_FROM_BEGINNING and resumption.commit is not None:
            known = resumption.commit.positions.get(source_id, {})
            positions = {
                number: position if number in known else source.partitions[number].end
                for number, position in resumption.positions[source_id].items()
            }
            return dataclasses.replace(resumption, positions={source_id: positions})
        return resumption

    @contextmanager
    def _reading(self, query: str) -> Iterator[None]:
        reader = reader_class(self.log, self.without, query)
        with (
            patch.object(reading_back, "PartitionReader", reader),
            patch.object(witnesses, "PartitionReader", reader),
            patch.object(witnesses, "Cluster", lambda _bootstrap: ModelCluster(self.log)),
            patch.object(witnesses, "BatchReader", batch_reader_class(self.log, self.without)),
        ):
            yield


def _cut_of(partition: Partition, chance: Random) -> int:
    """Often nothing is lost, often all, else some."""
    match chance.randrange(4):
        case 0 | 1:
            return partition.end
        case 2:
            return partition.synced
        case _:
            return chance.randint(partition.synced, partition.end)
