"""The machine of transactions in one shard, with the interface for the runtime."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.configs.store import ConfigStore
from headrace.coordination.decision import Decision, TimerKey
from headrace.coordination.transactions.machine import Transactions, TransactionSettings


class TransactionMachines:
    """The machine of the transactions in one partition of `__transaction_state`."""

    def __init__(self, settings: TransactionSettings, shard: int) -> None:
        self.transactions: Final = Transactions(settings, shard=shard)

    def replay(self, key: bytes, value: bytes | None, _producer_id: int) -> None:
        """Raises CorruptRecordError."""
        self.transactions.replay(key, value)

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """Nothing to do: nobody writes to this partition in a transaction."""

    def loaded(self, now_ms: int) -> Iterable[Decision[Any]]:
        return (self.transactions.loaded(now_ms),)

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        return self.transactions.timed_out(key, now_ms)

    def write_failed(
        self, about: str, decision: Decision[Any], error: ErrorCode, now_ms: int
    ) -> Decision[Any]:
        return self.transactions.write_failed(about, decision, error, now_ms)


def transaction_settings(configs: ConfigStore) -> TransactionSettings:
    """The settings in the broker's configuration."""
    return TransactionSettings(
        max_timeout_ms=configs.number("transaction.max.timeout.ms"),
        id_expiration_ms=configs.number("transactional.id.expiration.ms"),
        expiry_interval_ms=configs.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )
