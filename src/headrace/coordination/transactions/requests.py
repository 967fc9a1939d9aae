"""Requests to the coordinator of transactions and its replies, as values without protocol versions.

Invariants: a request contains what was asked and nothing that was looked up. `client_version` is the version
of the transaction protocol: 2 for an EndTxn of version 5 or newer, and for a Produce or TxnOffsetCommit that
adds its partition by itself (KIP-890); 0 otherwise. In replies, `error` is `ErrorCode.none` on success. The
API files translate codes that old versions of a request do not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from headrace.coordination.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NOT_BEGUN, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId with a transactional id. Only a producer that goes on sends id and epoch (KIP-360).

    Two-phase commits (version 6: enable2Pc, keepPreparedTxn; KIP-939) are not supported.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH

    @property
    def goes_on(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """One transaction of AddPartitionsToTxn, or AddOffsetsToTxn with the partition of the group's offsets.

    `verify_only` (version 4 and newer) asks whether the partitions are in it, and adds nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    verify_only: bool = False
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """EndTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerReply:
    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH

    def failed(self, error: ErrorCode) -> InitProducerReply:
        # The client tries again anyway, whether or not the abort was written.
        return InitProducerReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsReply:
    """The result for each partition, in order."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]

    @property
    def error(self) -> ErrorCode:
        """The first error, for requests with one answer for all partitions."""
        return next((error for _, error in self.partitions if error is not ErrorCode.none), ErrorCode.none)

    def failed(self, error: ErrorCode) -> AddPartitionsReply:
        return AddPartitionsReply(partitions=tuple((partition, error) for partition, _ in self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReply:
    """EndTxn; in version 2 of the protocol with the id and epoch of the next transaction."""

    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH

    def failed(self, error: ErrorCode) -> EndReply:
        return EndReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The markers that still have to be written for a decided transaction.

    `producer_epoch` is the epoch that they carry. A partition whose topic is gone needs no marker.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """DescribeTransactions."""

    transactional_id: str
    error: ErrorCode = ErrorCode.none
    state: str = ""
    timeout_ms: int = 0
    started_ms: int = NOT_BEGUN
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """ListTransactions. Empty filters let everything pass.

    `duration_ms` (version 1): only transactions that began longer ago. `pattern` (version 2, KIP-1152): only
    ids that match as a whole.
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransactions:
    error: ErrorCode = ErrorCode.none
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()

    def with_more(self, other: ListedTransactions) -> ListedTransactions:
        """Combine the replies of two partitions."""
        return replace(
            self,
            error=self.error if self.error is not ErrorCode.none else other.error,
            transactions=self.transactions + other.transactions,
        )
