"""The embedded broker of `headrace.testing`, with a raw client to talk to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.broker.broker import Broker
from headrace.broker.settings import FsyncPolicy
from headrace.testing import EmbeddedBroker
from tests.conformance.raw_client import RawClient, plain
from tests.conformance.record_batches import Record, batch

PRODUCE: Final = 0


class ServedBroker:
    """Made by `served`."""

    def __init__(self, embedded: EmbeddedBroker, client: RawClient) -> None:
        self._embedded = embedded
        self._client = client
        self.bootstrap = embedded.bootstrap
        self.port = embedded.port

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The reply as dictionaries and lists."""
        return plain(self._client.ask(api_key, version, **fields))

    def do(self, work: Callable[[Broker], Any]) -> Any:
        """Something done to the broker on its own loop, as requests are."""
        return self._embedded.call(work)

    def kill(self) -> None:
        """As a crash would."""
        self._embedded.kill()

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
def served(data_dir: Path, fsync: FsyncPolicy = "os", **settings: Any) -> Iterator[ServedBroker]:
    with (
        EmbeddedBroker(data_dir, fsync=fsync, **settings) as embedded,
        RawClient(("127.0.0.1", embedded.port)) as client,
    ):
        yield ServedBroker(embedded, client)
