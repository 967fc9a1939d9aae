"""New producer ids for idempotent and transactional producers.

Invariants: an id is used once in the life of a data folder. Ids are reserved in blocks; a block is written to
disk before its first id is used. A stop or a crash loses the rest of a block, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.log.folder.data_folder import DataFolder

# The size of the blocks that Apache Kafka's controller gives its brokers.
BLOCK_SIZE: Final = 1000


class ProducerIds:
    """Hands out producer ids."""

    def __init__(self, logs: DataFolder) -> None:
        self._logs: Final = logs
        self._block: Iterator[int] = iter(())

    def take(self) -> int:
        """The next id. Raises StorageError if a new block cannot be written."""
        producer_id = next(self._block, None)
        if producer_id is None:
            self._block = iter(self._logs.reserve_producer_ids(BLOCK_SIZE))
            producer_id = next(self._block)
        return producer_id
