"""`headrace reconcile`: finds the hops of a platform and what was recorded about them, and compares.

Needs the log and, for tables, the lake's files; the platform may be running or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import TableLayout
from headrace.lake.positions import Reached
from headrace.lake.resuming import history
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import read_histories
from headrace.reconcile.findings import Basis, Finding
from headrace.reconcile.hops import QueryHop, hop_of, lake_hop_of
from headrace.reconcile.reconciling import Reconciler, Recorded
from headrace.reconcile.recorded import Offsets


class Reconciliation:
    """One reconciliation of one platform."""

    def __init__(self, settings: Settings) -> None:
        """Raises HeadraceError if the log cannot be read."""
        self._settings = settings
        self._cluster = Cluster(settings.bootstrap)
        self._catalogue = _catalogue(settings)
        self._lake = marketplace.lake_plan(settings)

    def run(self, *, is_full: bool) -> Iterator[Finding]:
        """A finding for each query and each table. Raises HeadraceError if something cannot be read."""
        assert self._lake.lake_table is not None
        recorded = _recorded(self._cluster, self._catalogue, self._lake.lake_table)
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
        reconciler = Reconciler(self._cluster, self._settings.lake_dir, recorded)
        yield from reconciler.run(hops, [lake_hop_of(self._lake)], is_full=is_full)


def _catalogue(settings: Settings) -> Catalogue:
    log = StatementLog(settings.bootstrap)
    log.start()
    try:
        return log.catalogue
    finally:
        log.stop()


def _recorded(cluster: Cluster, catalogue: Catalogue, table: TableLayout) -> Recorded:
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
        tables={table.name: table_positions(table)},
    )


def table_positions(table: TableLayout) -> Offsets:
    """How far the newest version of the table has read its topic, by topic id; nothing if it does not say."""
    log = DeltaLog(table.path)
    said = next(history(log), None) if log.exists else None
    reached = said.progress.positions if said is not None else Reached()
    return {reached.topic_id: reached.offsets} if reached.topic_id else {}
