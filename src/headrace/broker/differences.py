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
DIFFERENCES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "Metadata that makes a topic",
        "UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE until a leader is elected",
        "The topic, at once: there is no election to wait for.",
    ),
    (
        "Replication factor above 1",
        "INVALID_REPLICATION_FACTOR, counting the brokers",
        "The same code; the message names the Apache Kafka engine (`--engine kafka`), which has replicas.",
    ),
    (
        "`min.insync.replicas`",
        "A dynamic default of the cluster, altered under conditions (eligible leader replicas, KIP-966)",
        "A plain default that can be altered. It changes nothing: there is one replica.",
    ),
    (
        "Checks of records",
        "Looks into every batch: counts, deltas and timestamps of its records",
        "Checks length, checksum, magic, sequence and the header's newest timestamp, and looks at records "
        "only where the topic asks for it (timestamps, compression, compaction): batches are stored as they came.",
    ),
    (
        "Gaps in the offset deltas of a compressed batch",
        "An internal error",
        "They are renumbered where records are looked at.",
    ),
    (
        "Producer snapshots",
        "Keep the newest batch of each producer",
        "Keep the last five, behind Kafka's part of the file, so that retries after a crash are recognised.",
    ),
    (
        "Offset of the newest timestamp (ListOffsets -3) after DeleteRecords",
        "Can name a record that was deleted",
        "Names a record that is there.",
    ),
    (
        "Transactional ids",
        "Transactions",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients take as final: transactions are not built yet.",
    ),
    (
        "Coordinators of share groups (FindCoordinator, key type 2)",
        "A node",
        "INVALID_REQUEST: share groups are not built.",
    ),
    (
        "Requests that make no sense (Metadata with neither name nor id, an unknown operation on a config)",
        "UNKNOWN_SERVER_ERROR",
        "INVALID_REQUEST, with a message.",
    ),
    (
        "More than 10,000 new partitions in one CreatePartitions",
        "UNKNOWN_SERVER_ERROR",
        "POLICY_VIOLATION, with a message.",
    ),
    (
        "Configs of groups, client metrics and broker loggers",
        "Described and altered",
        "INVALID_REQUEST: nothing here reads them.",
    ),
    (
        "`listeners`, `listener.security.protocol.map`",
        "Can be altered while the broker runs",
        "Read-only.",
    ),
    (
        "Results of DeleteTopics",
        "In any order",
        "In the order of the request.",
    ),
    (
        "Several requests on one connection",
        "Each is taken up after the one before it was answered",
        "They are taken up as they come and answered in order: a fetch that waits holds up no produce.",
    ),
)
