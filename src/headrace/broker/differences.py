"""Where the embedded broker differs from Apache Kafka 4.3.1 on purpose, as data for the compatibility page.

Invariant: every difference that the conformance tests accept (`tests/conformance/accepted_differences.py`) is
one of these; a test holds both lists together.
"""

from __future__ import annotations

from typing import Final

# Keys, and why they are not served.
NOT_OFFERED: Final[tuple[tuple[str, str], ...]] = (
    (
        "OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, DescribeGroups, ListGroups, "
        "DeleteGroups, OffsetDelete, ConsumerGroupHeartbeat, ConsumerGroupDescribe",
        "Consumer groups are not built yet. Consumers read by assignment.",
    ),
    (
        "AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit, WriteTxnMarkers, "
        "DescribeTransactions, ListTransactions",
        "Transactions are not built yet. Idempotent producers are served.",
    ),
    (
        "SaslHandshake, SaslAuthenticate, the ACL, SCRAM, delegation token and client quota keys",
        "Security and quotas are not built yet.",
    ),
    (
        "AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, AlterReplicaLogDirs, "
        "DescribeQuorum, UnregisterBroker, AddRaftVoter, RemoveRaftVoter, UpdateFeatures",
        "There is one node, so there is nothing to move, to elect or to vote on.",
    ),
    ("The keys of share groups and streams groups", "Not built."),
)

# What; what Apache Kafka does; what happens here and why.
DIFFERENCES: Final[tuple[tuple[str, str, str], ...]] = ()
