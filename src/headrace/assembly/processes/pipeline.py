"""The pipeline process: one Spark session running the queries of statements and the query that fills the
lake, until told to stop.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable

from headrace.assembly.announcements import announce
from headrace.assembly.processes.pipeline_pulse import Pulse
from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from headrace.lake.writer import WrittenBatch
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.push_wishes import PushWishes
from headrace.pipeline.catalogue.repairs import RepairLog
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.catalogue.status import StatusLog
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.spark.fair_turns import half_of_the_cores
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.lake_start import make_table
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.progress import ProgressWatch
from headrace.pipeline.spark.registry_client import RegistryClient
from headrace.pipeline.spark.repairing import Repairs
from headrace.pipeline.spark.session import ask_jvm, create_session
from headrace.pipeline.spark.statement_runner import StatementRunner
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.warm_up import warm_up
from headrace.pipeline.spark.writer_lock import hold_writer_lock

logger = logging.getLogger(__name__)

# How often topics are checked: the longest that a query keeps reading a topic that was deleted and
# recreated.
_LOOK_SECONDS = 0.2


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    for name in ("py4j", "httpx"):
        # Both log every call at INFO level.
        logging.getLogger(name).setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    java = find_java(settings.java_home)
    jars = Artifacts(settings.cache_dir).jars("spark")
    announce(settings, "pipeline", state="starting", detail="starting Spark")
    spark = create_session(settings, java_home=java.home, jars=jars)
    # py4j starts the JVM in this process's session, so Ctrl-C would reach it too. The supervisor signals only
    # this process.
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    # A driver that was killed leaves a JVM behind that may still write for a moment.
    hold_writer_lock(spark, settings.data_dir / "pipeline" / ".writer")
    registry = RegistryClient(f"http://{settings.host}:{settings.registry_port}")
    cluster = Cluster(settings.bootstrap)
    statuses = StatusLog(cluster)
    commits = CommitLog(cluster)
    lake = marketplace.lake_plan(settings)
    assert lake.lake_table is not None
    assert lake.query_id is not None
    lake_query = lake.query_id

    def on_batch(batch: int, written: WrittenBatch) -> None:
        statuses.write_batch(
            lake_query,
            batch=batch,
            rows=written.rows,
            latency_quantiles_ms=written.latency_quantiles_ms,
            at=_wall_clock_ms(),
        )

    # Before the first event, so that an early question gets an empty answer instead of an error.
    make_table(spark, lake.lake_table, data_dir=settings.data_dir)
    log = StatementLog(settings.bootstrap)
    log.start()
    if _log_is_empty(cluster, settings):
        announce(settings, "pipeline", state="starting", detail="warming up")
        example = marketplace.avro_plan(settings.events_topic)
        warm_up(spark, example, lake, settings=settings, stopping=stopping.is_set)
    turns = Turns(half_of_the_cores())
    filling = QueryKeeper(
        PlanQuery(
            spark,
            lake,
            settings,
            registry,
            query_id=lake_query,
            commits=commits,
            on_batch=on_batch,
            turns=turns,
        ),
        cluster=cluster,
        on_status=statuses.write,
        wall_clock_ms=_wall_clock_ms,
    )
    wishes = PushWishes(cluster)
    runner = StatementRunner(
        spark,
        settings,
        statements=log,
        wishes=wishes,
        registry=registry,
        cluster=cluster,
        commits=commits,
        on_status=statuses.write,
        wall_clock_ms=_wall_clock_ms,
        on_plan=statuses.write_plan,
        on_gone=statuses.forget,
        other_queries=frozenset({lake_query}),
        turns=turns,
    )
    asked = RepairLog(cluster)
    repairs = Repairs(
        spark,
        settings,
        cluster=cluster,
        commits=commits,
        registry=registry,
        catalogue=lambda: log.catalogue,
        lake=lake,
        pause_lake=filling.stop,
    )

    progress = ProgressWatch(
        cluster,
        on_progress=lambda query, found: statuses.write_progress(query, found, at=_wall_clock_ms()),
        wall_clock_ms=_wall_clock_ms,
        real_time_batch_seconds=settings.real_time_batch_seconds,
    )
    try:
        with Pulse(settings, "pipeline", ask_jvm=lambda: ask_jvm(spark)) as pulse:
            _keep(
                settings,
                cluster,
                filling,
                runner,
                stopping,
                progress=progress,
                repairing=lambda: _repair_next(asked, repairs),
                pulse=pulse,
            )
    finally:
        asked.close()
        runner.stop()
        filling.stop()
        wishes.close()
        commits.close()
        cluster.close()
        log.stop()
        statuses.close()
        registry.close()
        spark.stop()
    return 0


def _keep(
    settings: Settings,
    cluster: Cluster,
    filling: QueryKeeper,
    statements: StatementRunner,
    stopping: threading.Event,
    *,
    progress: ProgressWatch,
    repairing: Callable[[], None],
    pulse: Pulse,
) -> None:
    announced = ""
    while not stopping.is_set():
        try:
            statements.reconcile()
            keepers = (*statements.keepers, filling)
            topics = cluster.lookup(sorted({name for keeper in keepers for name in keeper.topic_names}))
            for keeper in keepers:
                keeper.tick(topics, time.monotonic())
                pulse.turned()
            progress.look(keepers, topics, time.monotonic())
            repairing()
        except HeadraceError as error:
            if error.code != "log_unavailable":
                raise
            # The log may be restarting; running queries carry on by themselves.
            logger.warning("%s", error)
        # Also if the log does not answer: that is not this loop's fault.
        pulse.turned()
        detail = ", ".join(
            f"{keeper.state or 'starting'} {keeper.mode}".strip().lower()
            for keeper in (*statements.keepers, filling)
        )
        if detail != announced:
            announce(settings, "pipeline", state="ready", detail=detail)
            announced = detail
        stopping.wait(_LOOK_SECONDS)


def _repair_next(asked: RepairLog, repairs: Repairs) -> None:
    """One at a time: the queries have their turn between two repairs."""
    repair = asked.begin_next()
    if repair is not None:
        asked.write(repairs.carry_out(repair))


def _log_is_empty(cluster: Cluster, settings: Settings) -> bool:
    """Whether the log has no events yet."""
    return not any(cluster.end_offsets(settings.events_topic).values())


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
