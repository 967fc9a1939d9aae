"""The pipeline process: one Spark session running the queries of statements and the connectors into the lake,
until told to stop.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import headrace
from headrace.assembly.announcements import announce
from headrace.assembly.lake_connectors import LakeConnectors
from headrace.assembly.lake_orders import LakeOrders
from headrace.assembly.processes.pipeline_pulse import Pulse
from headrace.assembly.rollup_keeping import RollupKeeping
from headrace.assembly.sinks import worker_id
from headrace.client.cluster import Cluster
from headrace.connect.connectors.lake_sink.parsing import folders_of, lake_sink_of
from headrace.connect.connectors.lake_sink.plugin import lake_sinks
from headrace.connect.state.configs import TOPIC as CONFIGS_TOPIC
from headrace.connect.state.configs import ConfigLog
from headrace.connect.state.logs import compacted_log
from headrace.connect.state.statuses import TOPIC as CONNECTOR_STATUS_TOPIC
from headrace.connect.state.statuses import StatusLog as ConnectorStatusLog
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.catalogue.lake_orders import OrderLog
from headrace.pipeline.catalogue.push_wishes import PushWishes
from headrace.pipeline.catalogue.repairs import RepairLog
from headrace.pipeline.catalogue.rollups import RollupLog
from headrace.pipeline.catalogue.spark_questions import SparkQuestionLog
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.catalogue.status import StatusLog
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.spark.background import Background
from headrace.pipeline.spark.fair_turns import half_of_the_cores, usable_cores
from headrace.pipeline.spark.lake.maintaining import Maintenance
from headrace.pipeline.spark.lake.table_orders import TableOrders
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.lake.topic_values import TopicValues
from headrace.pipeline.spark.progress import ProgressWatch
from headrace.pipeline.spark.questions.running import QuestionRunning
from headrace.pipeline.spark.questions.service import SparkQuestions
from headrace.pipeline.spark.registry_client import Registries
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
# So many queries into the lake are started at once; one that takes longer than this does not count.
_STARTS = max(2, usable_cores())
_START_SECONDS = 3.0
# A stop waits so long for the commits of the lake: what is not committed by then is read again.
_STOP_SECONDS = 10.0


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    for name in ("py4j", "httpx"):
        # Both log every call at INFO level.
        logging.getLogger(name).setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    java = find_java(settings.java_home)
    jars = Artifacts(settings.cache_dir).spark_jars()
    announce(settings, "pipeline", state="starting", detail="starting Spark")
    spark = create_session(settings, java_home=java.home, jars=jars)
    # py4j starts the JVM in this process's session, so Ctrl-C would reach it too. The supervisor signals only
    # this process.
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    # A driver that was killed leaves a JVM behind that may still write for a moment.
    hold_writer_lock(spark, settings.data_dir / "pipeline" / ".writer")
    registries = Registries()
    registry = registries.at(f"http://{settings.host}:{settings.registry_port}")
    cluster = Cluster(settings.bootstrap)
    statuses = StatusLog(cluster)
    commits = CommitLog(cluster)
    log = StatementLog(settings.bootstrap)
    log.start()
    configs = ConfigLog(compacted_log(settings.bootstrap, CONFIGS_TOPIC))
    configs.start()
    connector_statuses = ConnectorStatusLog(compacted_log(settings.bootstrap, CONNECTOR_STATUS_TOPIC))
    connector_statuses.start()
    if _log_is_empty(cluster, settings):
        announce(settings, "pipeline", state="starting", detail="warming up")
        warm_up(spark, settings=settings, stopping=stopping.is_set)
    turns = Turns(half_of_the_cores())
    background = Background(Turns(_STARTS, longest_seconds=_START_SECONDS))
    is_calm = True

    plugins = lake_sinks(folders_of(settings), headrace.__version__)
    connectors = LakeConnectors(
        configs=configs,
        statuses=connector_statuses,
        runs_here=lambda config: plugins.of(config) is not None,
        sink_of=lambda wish: lake_sink_of(wish, settings),
        make_query=lambda sink, topic: TableQuery(
            spark,
            sink,
            topic,
            settings,
            commits=commits,
            turns=turns,
            values=TopicValues(sink, topic, cluster=cluster, registry_at=registries.at),
            on_batch=partial(_write_batch, statuses),
        ),
        cluster=cluster,
        background=background,
        worker_id=worker_id(settings),
        on_status=statuses.write,
        on_plan=statuses.write_plan,
        on_gone=statuses.forget,
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
        other_queries=connectors.query_ids,
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
        stopped_table=connectors.stopped,
    )

    progress = ProgressWatch(
        cluster,
        on_progress=lambda query, found: statuses.write_progress(query, found, at=_wall_clock_ms()),
        wall_clock_ms=_wall_clock_ms,
        real_time_batch_seconds=settings.real_time_batch_seconds,
    )
    try:
        with (
            Pulse(settings, "pipeline", ask_jvm=lambda: ask_jvm(spark)) as pulse,
            Maintenance(spark, settings, turns=turns) as maintenance,
            LakeOrders(
                OrderLog(cluster),
                connectors,
                carry_out=TableOrders(spark, settings, cluster=cluster).carry_out,
                alone=maintenance.alone,
            ) as orders,
            SparkQuestions(
                SparkQuestionLog(settings.bootstrap),
                QuestionRunning(spark),
                settings.data_dir.absolute() / "pipeline" / "answers",
            ),
            RollupKeeping(
                RollupLog(settings.bootstrap),
                settings.lake_dir,
                seconds=settings.lake_rollup_seconds,
                wait_for_calm=turns.wait_for_calm,
            ),
        ):
            _keep(
                settings,
                cluster,
                connectors,
                runner,
                stopping,
                progress=progress,
                repairing=lambda: _repair_next(asked, repairs),
                orders=orders,
                maintenance=maintenance,
                pulse=pulse,
            )
    finally:
        asked.close()
        connectors.stop()
        runner.stop()
        is_calm = background.wait_for_all(_STOP_SECONDS)
        for stop in (configs.stop, connector_statuses.stop, log.stop):
            stop()
        for opened in (wishes, commits, cluster, statuses, registries):
            opened.close()
        if is_calm:
            spark.stop()
    if not is_calm:
        _end_at_once()
    return 0


def _end_at_once() -> None:
    """Somebody waits for a storage that does not answer, and both Python and Spark would wait for that. It is
    as if the process was killed; the supervisor ends the JVM.
    """
    logger.warning("A query into the lake did not end within %g s; it is left alone.", _STOP_SECONDS)
    logging.shutdown()
    os._exit(0)


def _write_batch(statuses: StatusLog, query: str, batch: int, written: WrittenBatch) -> None:
    statuses.write_batch(
        query,
        batch=batch,
        rows=written.rows,
        latency_quantiles_ms=written.latency_quantiles_ms,
        at=_wall_clock_ms(),
    )


def _keep(
    settings: Settings,
    cluster: Cluster,
    connectors: LakeConnectors,
    statements: StatementRunner,
    stopping: threading.Event,
    *,
    progress: ProgressWatch,
    repairing: Callable[[], None],
    orders: LakeOrders,
    maintenance: Maintenance,
    pulse: Pulse,
) -> None:
    announced: str | None = None
    while not stopping.is_set():
        try:
            connectors.reconcile(time.monotonic())
            maintenance.tell(connectors.queries)
            statements.reconcile()
            keepers = (*statements.keepers, *connectors.keepers)
            topics = cluster.lookup(sorted({name for keeper in keepers for name in keeper.topic_names}))
            for keeper in keepers:
                keeper.tick(topics, time.monotonic())
                pulse.turned()
            connectors.report()
            progress.look(keepers, topics, time.monotonic())
            repairing()
            orders.turn()
        except HeadraceError as error:
            if error.code != "log_unavailable":
                raise
            # The log may be restarting; running queries carry on by themselves.
            logger.warning("%s", error)
        # Also if the log does not answer: that is not this loop's fault.
        pulse.turned()
        detail = ", ".join(
            f"{keeper.state or 'starting'} {keeper.mode}".strip().lower()
            for keeper in (*statements.keepers, *connectors.keepers)
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
