"""What the coordinator of transactions is asked and what it answers, as values without protocol versions.

Invariants: a request holds what was asked, with nothing looked up. `client_version` is the version of the
transaction protocol that the request speaks: 2 where it comes with an EndTxn of version 5 or newer or with a
Produce or TxnOffsetCommit that adds its partition by itself (KIP-890), 0 otherwise. In replies `error` is
`ErrorCode.none` where all is well. Codes that old versions of a request do not know are for the API files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from headrace.coordination.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NOT_BEGUN, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId with a transactional id. Id and epoch only from a producer that goes on (KIP-360).

    Two-phase commits (version 6: enable2Pc, keepPreparedTxn; KIP-939) are not known here.
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
    """AddPartitionsToTxn, one of its transactions; AddOffsetsToTxn with the partition of the group's offsets.

    `verify_only` (version 4 and newer) asks whether they are in it, and adds nothing.
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
        # One that tells the client to come again says so whether or not the abort was written.
        return InitProducerReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsReply:
    """The outcome for each partition, in order."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]

    @property
    def error(self) -> ErrorCode:
        """What went wrong, for requests with one answer for all."""
        return next((error for _, error in self.partitions if error is not ErrorCode.none), ErrorCode.none)

    def failed(self, error: ErrorCode) -> AddPartitionsReply:
        return AddPartitionsReply(partitions=tuple((partition, error) for partition, _ in self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReply:
    """In version 2 of the protocol with the id and epoch of the next transaction."""

    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH

    def failed(self, error: ErrorCode) -> EndReply:
        return EndReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The markers that a decided transaction still owes its partitions.

    The epoch is the one that they are to carry. A partition whose topic is gone needs none.
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
    """Empty filters let everything pass.

    `duration_ms` (version 1): only those that began longer ago; `pattern` (version 2, KIP-1152): only ids
    that match as a whole.
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
        """Both answers as one: of coordinators of several partitions."""
        return replace(
            self,
            error=self.error if self.error is not ErrorCode.none else other.error,
            transactions=self.transactions + other.transactions,
        )
