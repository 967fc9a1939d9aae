"""The embedded broker in a thread of the test, with a raw client to talk to it and its state within reach."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.broker.broker import Broker
from headrace.broker.server import BrokerServer
from headrace.broker.settings import BrokerSettings, FsyncPolicy
from tests.conformance.raw_client import RawClient, plain
from tests.conformance.record_batches import Record, batch

PRODUCE: Final = 0
START_SECONDS: Final = 30.0


class ServedBroker:
    """Made by `served`."""

    def __init__(self, server: BrokerServer, loop: asyncio.AbstractEventLoop, client: RawClient) -> None:
        self._server = server
        self._loop = loop
        self._client = client
        self.bootstrap = f"127.0.0.1:{server.port}"
        self.port = server.port

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The reply as dictionaries and lists."""
        return plain(self._client.ask(api_key, version, **fields))

    def do(self, work: Callable[[Broker], Any]) -> Any:
        """Something done to the broker on its own loop, as requests are."""
        done = threading.Event()
        results: list[Any] = []

        def run() -> None:
            try:
                results.append(work(self._server.broker))
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(START_SECONDS)
        return results[0]

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        overrides = {key.replace("_", "."): value for key, value in configs.items()}
        self.do(lambda broker: broker.create_topic(name, partitions, overrides))

    def produce(self, name: str, *records: Record, partition: int = 0, **fields: Any) -> None:
        reply = self.ask(
            PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout=10_000,
            topic_data=[
                {"name": name, "partition_data": [{"index": partition, "records": batch(records, **fields)}]}
            ],
        )
        (answer,) = reply["responses"][0]["partition_responses"]
        assert answer["error_code"] == "none", answer


@contextmanager
def served(data_dir: Path, fsync: FsyncPolicy = "os") -> Iterator[ServedBroker]:
    server = BrokerServer(BrokerSettings(data_dir=data_dir, port=0, fsync=fsync))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="broker")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(START_SECONDS)
        try:
            with RawClient(("127.0.0.1", server.port)) as client:
                yield ServedBroker(server, loop, client)
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
