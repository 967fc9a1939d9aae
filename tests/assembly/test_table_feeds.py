"""What feeds a table, from the connectors that a platform has, over real topics and HTTP."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.assembly import table_feeds
from headrace.assembly.table_feeds import TableFeeds
from headrace.client.cluster import Cluster
from headrace.connect.state.configs import TOPIC, ConfigLog
from headrace.connect.state.logs import compacted_log
from headrace.core.settings import Settings
from headrace.lake.location import Location
from headrace.query.tail.feeds import TableFeed
from headrace.query.tail.tails import Tails
from headrace.testing import EmbeddedBroker
from tests.query.records import wait_until
from tests.query.tail.written_table import SCHEMAS, FeedsOfTests, WrittenTable, numbers_in

FIELDS = "io.confluent.connect.storage.partitioner.FieldPartitioner"


@pytest.fixture
def registry() -> Iterator[tuple[str, list[str]]]:
    """The address of a registry with the schemas of the tests, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            found = SCHEMAS.get(int(self.path.rpartition("/")[2]))
            body = json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40403}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def settings(broker: EmbeddedBroker, tmp_path: Path) -> Settings:
    return dataclasses.replace(
        Settings(), data_dir=tmp_path, engine="external", bootstrap_servers=broker.bootstrap
    )


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> Iterator[Cluster]:
    made = Cluster(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def configs(broker: EmbeddedBroker) -> Iterator[ConfigLog]:
    log = ConfigLog(compacted_log(broker.bootstrap, TOPIC))
    log.start()
    before = set(log.wishes())
    yield log
    for name in set(log.wishes()) - before:
        log.delete(name)
    log.stop()


@pytest.fixture
def feeds(settings: Settings, cluster: Cluster, configs: ConfigLog) -> Iterator[TableFeeds]:
    del configs
    made = TableFeeds(settings, cluster)
    yield made
    made.close()


def config(topic: str, **changes: str) -> dict[str, str]:
    return {
        "connector.class": "headrace.LakeSinkConnector",
        "topics": topic,
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://127.0.0.1:1",
        "errors.tolerance": "all",
        **changes,
    }


def found(feeds: TableFeeds, table: Path, is_it: Callable[[TableFeed | None], bool]) -> TableFeed | None:
    """The feed of the table as soon as it is this one."""
    wait_until(lambda: is_it(feeds.of(Location.local(table))), "the feed of the table is known")
    return feeds.of(Location.local(table))


def test_a_table_is_fed_by_the_connector_that_writes_it(
    settings: Settings, feeds: TableFeeds, configs: ConfigLog
) -> None:
    topic, name = f"t-{uuid.uuid4().hex}", uuid.uuid4().hex
    table = settings.lake_dir / topic
    assert feeds.of(Location.local(table)) is None
    configs.put(name, config(topic))
    feed = found(feeds, table, lambda each: each is not None)
    assert feed is not None
    assert (feed.sink.name, feed.topic, feed.letters, feed.problem) == (name, topic, f"{topic}_dlq", "")
    assert feed.new_partitions_per_hour == settings.lake_new_partitions_per_hour
    assert feeds.of(Location.local(settings.lake_dir / "other")) is None
    configs.set_target(name, "PAUSED")
    configs.set_target(name, "STOPPED")
    stopped = found(feeds, table, lambda each: each is not None and bool(each.problem))
    assert stopped is not None
    assert stopped.problem == f"connector {name} is stopped"
    configs.set_target(name, "PAUSED")
    found(feeds, table, lambda each: each is not None and not each.problem)
    configs.delete(name)
    found(feeds, table, lambda each: each is None)


def test_two_connectors_of_one_table_feed_nothing(
    settings: Settings, feeds: TableFeeds, configs: ConfigLog
) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    for name in ("first", "second"):
        configs.put(f"{name}-{topic}", config(topic))
    feed = found(feeds, settings.lake_dir / topic, lambda each: each is not None and bool(each.problem))
    assert feed is not None
    assert "both name this table" in feed.problem


def test_topics_of_an_expression_are_found(
    settings: Settings,
    feeds: TableFeeds,
    configs: ConfigLog,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_feeds, "_LOOK_SECONDS", 0.1)
    word = uuid.uuid4().hex
    with_expression = config("", **{"topics.regex": f"{word}.*"})
    del with_expression["topics"]
    configs.put(word, with_expression)
    table = settings.lake_dir / f"{word}-later"
    assert feeds.of(Location.local(table)) is None
    cluster.create_topic(f"{word}-later")
    assert found(feeds, table, lambda each: each is not None) is not None


def test_a_tail_with_schemas_of_a_registry(
    broker: EmbeddedBroker,
    settings: Settings,
    feeds: TableFeeds,
    configs: ConfigLog,
    registry: tuple[str, list[str]],
) -> None:
    url, asked = registry
    name = f"t-{uuid.uuid4().hex}"
    table = WrittenTable(broker, name, settings.lake_dir, FeedsOfTests(Cluster(broker.bootstrap)))
    of_registry = {"value.converter.schema.registry.url": url, "partition.field.name": "KIND"}
    configs.put(name, config(name, **of_registry, **{"partitioner.class": FIELDS}))
    tails = Tails(broker.bootstrap, feeds, settings.data_dir / "tails", most_bytes=2**24)
    try:
        found(feeds, table.folder, lambda each: each is not None)
        numbers = table.produce(10)
        more = table.produce(10, schema=2)
        view = tails.view(table.snapshot(), wait_seconds=60)
        assert (numbers_in(view), view.reason) == (numbers + more, "")
        table.send([b"\x00\x00\x00\x00\x63\x02"])
        again = tails.view(table.snapshot(), wait_seconds=60)
        assert (numbers_in(again), again.reason) == (numbers + more, "")
        assert sorted(set(asked)) == [f"/schemas/ids/{each}" for each in (1, 2, 99)]
        assert [asked.count(f"/schemas/ids/{each}") for each in (1, 2)] == [1, 1]
    finally:
        tails.close()
        table.cluster.close()
