"""Producer ids that nobody had before, for idempotent producers.

Invariants: an id is given once in the life of a data folder. Ids are taken from it in blocks, which are
written down before the first one of them is given; a stop or a crash loses what is left of a block, as in
Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.log.folder.data_folder import DataFolder

# As many as Apache Kafka's controller gives a broker at once.
BLOCK_SIZE: Final = 1000


class ProducerIds:
    """Who gives them."""

    def __init__(self, logs: DataFolder) -> None:
        self._logs: Final = logs
        self._block: Iterator[int] = iter(())

    def take(self) -> int:
        """The next one. Raises StorageError where a new block cannot be written down."""
        producer_id = next(self._block, None)
        if producer_id is None:
            self._block = iter(self._logs.reserve_producer_ids(BLOCK_SIZE))
            producer_id = next(self._block)
        return producer_id
