"""The query process: SQL in workers of its own, behind `/sql`, Druid's SQL API and PostgreSQL's protocol.

Owns the desk and its workers, and the tails of the lake's tables. Invariants: it starts and answers without
the log, since the lake can be read without it; on SIGTERM it stops accepting, ends the questions that run,
and leaves no worker; it gives signs of life from the event loop. Nothing that happens to a question reaches
another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
from collections.abc import AsyncIterator
from typing import Final

import uvloop

from headrace.assembly.announcements import announce, latest, run_dir
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.probing import reachable
from headrace.assembly.processes.serving import Door, serve_all
from headrace.assembly.query_standings import QueryStandings
from headrace.assembly.receipt_ways import ReceiptWays
from headrace.assembly.signs_of_life import SignOfLife
from headrace.assembly.table_feeds import TableFeeds
from headrace.client.cluster import Cluster
from headrace.core.addresses import bracketed
from headrace.core.settings import Settings
from headrace.http.admission import Admission
from headrace.http.by_path import ByPath
from headrace.http.druid.app import create_druid_app
from headrace.http.query.app import QUERY_RULES, create_query_app
from headrace.pipeline.spark.registry_client import RegistryClient
from headrace.query.buckets.reading import BucketReader
from headrace.query.buckets.serving import Buckets
from headrace.query.buckets.tables import BucketTables, TablePlaces
from headrace.query.desk import Desk
from headrace.query.druid.desk_engine import DruidDesk
from headrace.query.log_sources import LogSources
from headrace.query.planning import Tails as AnyTails
from headrace.query.postgres.desk_engine import DeskEngine
from headrace.query.postgres.server import PostgresServer
from headrace.query.questions import QuestionLimits
from headrace.query.receipts.after import AfterReceipts
from headrace.query.receipts.watching import Receipts
from headrace.query.spark.asking import SparkAsker, SparkLimits
from headrace.query.spark.desk import SparkDesk
from headrace.query.statement_tables.planning import StatementTables
from headrace.query.tail.tails import Tails
from headrace.query.topic_tables.planning import TopicPlanner
from headrace.query.upstream import Upstream

PROCESS: Final = "query"
# Paths of ours on the port that Druid's clients use.
_OUR_PATHS: Final = ("/sql", "/receipts", "/health")
# SQL changes nothing, so it may also come as text.
_RULES: Final = dataclasses.replace(
    QUERY_RULES, checked_by_route=frozenset({"/sql", "/druid/v2/sql", "/druid/v2/sql/"})
)
_MEGABYTE: Final = 1024 * 1024
# How long a question waits for a log that does not answer.
_LOG_SECONDS: Final = 3.0


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    uvloop.run(_run(settings))
    return 0


def desk_of(
    settings: Settings,
    tails: AnyTails | None = None,
    sources: LogSources | None = None,
    places: TablePlaces | None = None,
) -> Desk:
    """The desk with the limits of these settings. Without `tails` and `sources`, only the lake is read, and
    without `places`, only the lake's folder.
    """
    cores = os.cpu_count() or 1
    return Desk(
        settings.lake_dir.resolve(),
        limits=QuestionLimits(
            seconds=settings.query_seconds,
            memory_megabytes=settings.query_memory_megabytes,
            rows=settings.query_rows,
            answer_megabytes=settings.query_answer_megabytes,
            topic_megabytes=settings.query_topic_megabytes,
            threads=cores,
        ),
        slots=settings.query_slots or cores,
        most_waiting=settings.query_waiting,
        folder=run_dir(settings).resolve() / "query",
        tails=tails,
        sources=sources,
        buckets=_buckets(settings, places) if places is not None else None,
    )


def _buckets(settings: Settings, places: TablePlaces) -> Buckets:
    folder = run_dir(settings).resolve() / "bucket-cache"
    reader = BucketReader(folder, most_bytes=settings.query_bucket_cache_megabytes * _MEGABYTE)
    return Buckets(tables=BucketTables(places), reader=reader)


@contextlib.asynccontextmanager
async def _desk(settings: Settings, sources: LogSources) -> AsyncIterator[tuple[Desk, Receipts]]:
    """With the tails and receipts of the platform's log, which nothing asks before the first question."""
    cluster = Cluster(settings.bootstrap, timeout_seconds=_LOG_SECONDS)
    feeds = TableFeeds(settings, cluster)
    folder = run_dir(settings).resolve() / "tails"
    tails = Tails(settings.bootstrap, feeds, folder, most_bytes=settings.query_tail_megabytes * _MEGABYTE)
    ways = ReceiptWays(settings, cluster, feeds)
    desk = desk_of(settings, tails, sources, feeds)
    receipts = Receipts(cluster, ways, desk.snapshots, tails, patience_seconds=_LOG_SECONDS)
    desk.receipts = AfterReceipts(receipts)
    standings = QueryStandings(settings, cluster)
    desk.tell_waiting(Upstream(cluster, feeds, ways, standings.of).of)
    try:
        yield desk, receipts
    finally:
        await desk.stop()
        for part in (receipts, standings, ways, tails, feeds, cluster):
            await asyncio.to_thread(part.close)


def spark_asker(settings: Settings) -> SparkAsker:
    """Who asks the pipeline process of this platform."""
    limits = SparkLimits(
        seconds=settings.query_spark_seconds,
        waiting=settings.query_spark_waiting,
        rows=settings.query_rows,
        megabytes=settings.query_answer_megabytes,
    )
    return SparkAsker(settings.bootstrap, lambda: ready_pipeline(settings), limits)


def ready_pipeline(settings: Settings) -> str | None:
    """Which pipeline process there is, if it is ready: the next one is another."""
    said = latest(settings, "pipeline")
    if said is None or said.state != "ready" or not _is_alive(said.pid):
        return None
    return str(said.pid)


def _is_alive(pid: int) -> bool:
    """Also while the supervisor has not noticed yet that a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.asynccontextmanager
async def _log_sources(settings: Settings) -> AsyncIterator[LogSources]:
    """Those of the platform's log and registry. Nothing is asked there before the first question."""
    cluster = Cluster(settings.bootstrap, timeout_seconds=_LOG_SECONDS)
    url = f"http://{bracketed(reachable(settings.host))}:{settings.registry_port}"
    registry = RegistryClient(url, timeout_seconds=_LOG_SECONDS)
    tables = StatementTables(cluster, timeout_seconds=_LOG_SECONDS)
    try:
        yield LogSources(TopicPlanner(cluster, registry, url), tables)
    finally:
        await asyncio.to_thread(tables.close)
        registry.close()
        await asyncio.to_thread(cluster.close)


@contextlib.asynccontextmanager
async def _postgres(settings: Settings, desk: Desk) -> AsyncIterator[PostgresServer]:
    server = PostgresServer(DeskEngine(desk), host=settings.host, port=settings.postgres_port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def _run(settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    sign = asyncio.create_task(SignOfLife(settings, PROCESS).keep_giving(), name="sign-of-life")
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(sign.cancel)
        sources = await stack.enter_async_context(_log_sources(settings))
        desk, receipts = await stack.enter_async_context(_desk(settings, sources))
        await desk.start()
        spark = SparkDesk(desk, spark_asker(settings))
        stack.push_async_callback(spark.stop)
        await stack.enter_async_context(_postgres(settings, desk))
        door = Door(
            name="SQL",
            application=ByPath(
                create_druid_app(DruidDesk(desk)),
                paths=_OUR_PATHS,
                chosen=create_query_app(desk, spark, receipts=receipts),
            ),
            rules=_RULES,
            host=settings.host,
            port=settings.query_port,
            setting="query_port",
            probe="/health/live",
        )
        # Creating a Litestar application may replace the root logger's handlers; we have our own format.
        configure_logging()
        await serve_all(
            (door,),
            stopping,
            desk.stop,
            admission=Admission.of(settings),
            # `headrace sql` asks there.
            say_ready=lambda _: announce(
                settings, PROCESS, state="ready", detail=_url(settings.host, settings.query_port)
            ),
        )


def _url(host: str, port: int) -> str:
    return f"http://{bracketed(reachable(host))}:{port}"
