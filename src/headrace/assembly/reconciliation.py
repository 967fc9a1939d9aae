"""`headrace reconcile`: finds the hops of a platform and what was recorded about them, and compares.

Needs the log and, for tables, the lake's files; the platform may be running or not. A repair is asked of the
pipeline process, the only writer of derived topics and tables (`pipeline/catalogue/repairs.py`).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from headrace.assembly.sinks import configured_sinks
from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Reached
from headrace.lake.resuming import history
from headrace.lake.sink import LocalStorage, TableFormat
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.repairs import Repair, RepairLog
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import read_histories
from headrace.pipeline.runs.stretches import joined, portions
from headrace.pipeline.sink_tables import drops_of, letters_of, query_id, table_name
from headrace.reconcile.findings import Basis, Finding
from headrace.reconcile.hops import LakeHop, QueryHop, hop_of
from headrace.reconcile.reconciling import Reconciler, Recorded
from headrace.reconcile.recorded import Offsets

# The pipeline process begins with a repair between two rounds of its queries, which may start meanwhile.
_REPAIR_SECONDS: Final = 180.0
# So many double rows in one wish: a record of the log holds at most a megabyte.
_DOUBLES_AT_ONCE: Final = 2_000


def table_hops(settings: Settings, cluster: Cluster) -> list[LakeHop | Finding]:
    """From topics to tables, by the connectors that are configured; a finding for each that cannot be
    compared.
    """
    hops: list[LakeHop | Finding] = []
    for sink, topic in configured_sinks(settings, cluster):
        query, table = query_id(sink.name, topic), table_name(sink, topic)
        letters = letters_of(sink, topic)
        if isinstance(sink.storage, LocalStorage) and sink.table_format is TableFormat.DELTA:
            hops.append(
                LakeHop(
                    query=query,
                    source=topic,
                    table=table,
                    folder=sink.storage.root / sink.topics_dir / table,
                    dead_letters=letters,
                    drops=drops_of(sink),
                )
            )
        else:
            why = "The table is not on this machine."
            if sink.table_format is TableFormat.FILES:
                why = "Rows of plain files do not say which records they are."
            hops.append(Finding(query=query, source=topic, sink=table, basis=Basis.NOTHING, unchecked=why))
    return hops


class Reconciliation:
    """One reconciliation of one platform."""

    def __init__(self, settings: Settings) -> None:
        """Raises HeadraceError if the log cannot be read."""
        self._settings = settings
        self._cluster = Cluster(settings.bootstrap)
        self._catalogue = _catalogue(settings)
        self._tables = table_hops(settings, self._cluster)
        # Before anything is compared: what is repaired later lies from here on.
        self._sinks_from = self._ends()

    def run(self, *, is_full: bool) -> Iterator[Finding]:
        """A finding for each query and each table. Raises HeadraceError if something cannot be read."""
        compared = [hop for hop in self._tables if isinstance(hop, LakeHop)]
        recorded = _recorded(self._cluster, self._catalogue, compared)
        hops: list[QueryHop] = []
        for query in self._catalogue.queries.values():
            try:
                hops.append(hop_of(query.id, plan_again(query.statement, query.id, self._catalogue)))
            except HeadraceError as error:
                yield Finding(
                    query=query.id,
                    source=", ".join(query.sources),
                    sink=query.sink,
                    basis=Basis.NOTHING,
                    unchecked=f"It cannot be planned: {error}",
                )
        yield from (finding for finding in self._tables if isinstance(finding, Finding))
        yield from Reconciler(self._cluster, recorded).run(hops, compared, is_full=is_full)

    def repair(self, findings: Sequence[Finding]) -> list[Repair]:
        """Have what is missing read again, and rows that are double removed; the answers.

        Raises not_running if the pipeline process does not answer; then nothing more is done about them.
        """
        asked = [repair for finding in findings for repair in self._wishes(finding)]
        log = RepairLog(self._cluster)
        try:
            try:
                for repair in asked:
                    log.write(repair)
                return log.wait_for(asked, _REPAIR_SECONDS)
            finally:
                log.forget(asked)
        finally:
            log.close()

    def _wishes(self, finding: Finding) -> Iterator[Repair]:
        # Records that are double in a topic stay: they have places.
        doubles = [double.id for double in finding.doubles if not double.places]
        if not finding.missing and not doubles:
            return
        tables = {hop.query: hop for hop in self._tables if isinstance(hop, LakeHop)}
        letters = (
            tables[finding.query].dead_letters
            if finding.query in tables
            else dead_letter_topic(finding.source)
        )
        names = (finding.source, finding.sink, letters)
        topics = self._cluster.lookup(names)
        if finding.source not in topics:
            # Deleted since it was compared.
            return
        source = topics[finding.source].topic_id
        sinks = {each.topic_id for each in topics.values()} - {source}
        wish = Repair(
            id="",
            query=finding.query,
            topic_id=source,
            sinks_from={each: ends for each, ends in self._sinks_from.items() if each in sinks},
        )
        for some in portions(joined(finding.missing)):
            yield dataclasses.replace(wish, id=uuid.uuid4().hex, stretches=some)
        for start in range(0, len(doubles), _DOUBLES_AT_ONCE):
            some_rows = tuple(doubles[start : start + _DOUBLES_AT_ONCE])
            yield dataclasses.replace(wish, id=uuid.uuid4().hex, doubles=some_rows)

    def _ends(self) -> dict[str, dict[int, int]]:
        """Of the topics that queries write, dead letters included."""
        sources = self._catalogue.sources.values()
        sinks = {name for each in sources for name in (each.topic, dead_letter_topic(each.topic))}
        sinks |= {hop.dead_letters for hop in self._tables if isinstance(hop, LakeHop)}
        ends: dict[str, dict[int, int]] = {}
        topics = self._cluster.lookup(sorted(sinks))
        for (name, partition), end in self._cluster.latest(topics.values()).items():
            ends.setdefault(topics[name].topic_id, {})[partition] = end
        return ends


def _catalogue(settings: Settings) -> Catalogue:
    log = StatementLog(settings.bootstrap)
    log.start()
    try:
        return log.catalogue
    finally:
        log.stop()


def _recorded(cluster: Cluster, catalogue: Catalogue, tables: Sequence[LakeHop]) -> Recorded:
    histories = read_histories(cluster)
    began: dict[str, Offsets] = {
        query: known.start.positions for query, known in histories.items() if known.start is not None
    }
    # The statement knows better: a history also notes where a query began again.
    began |= {
        query.id: query.start.sources for query in catalogue.queries.values() if query.start is not None
    }
    return Recorded(
        points={query: known.commits for query, known in histories.items()},
        began=began,
        tables={hop.query: table_positions(hop.folder) for hop in tables},
    )


def table_positions(folder: Path) -> Offsets:
    """How far the newest version of the table has read its topic, by topic id; nothing if it does not say."""
    log = DeltaLog(folder)
    said = next(history(log), None) if log.exists else None
    reached = said.progress.positions if said is not None else Reached()
    return {reached.topic_id: reached.offsets} if reached.topic_id else {}
