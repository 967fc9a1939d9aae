"""Deliberate differences between the embedded broker and Apache Kafka 4.3.1, for the compatibility page.

Invariant: the conformance tests accept exactly the differences in `DIFFERENCES`
(`tests/conformance/accepted_differences.py`); a test compares the two lists.
"""

from __future__ import annotations

from typing import Final

# Keys, and why they are not served.
NOT_OFFERED: Final[tuple[tuple[str, str], ...]] = (
    (
        "SaslHandshake, SaslAuthenticate, CreateAcls, DeleteAcls, AlterUserScramCredentials, "
        "AlterClientQuotas, the keys of delegation tokens",
        "Security and quotas are not implemented yet. Requests for ACLs, credentials and quotas return none.",
    ),
    (
        "AlterReplicaLogDirs, UnregisterBroker, AddRaftVoter, RemoveRaftVoter, UpdateFeatures",
        "There is one node with one folder, so there is nothing to move, remove, vote on or upgrade.",
    ),
    (
        "The keys of share groups and streams groups",
        "Not implemented. Clients see this in ApiVersions and report it (UnsupportedVersionException).",
    ),
)

# What; what Apache Kafka does; what happens here and why.
DIFFERENCES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "API keys",
        "Advertises 75 keys.",
        "Advertises the keys it serves, in the same versions; the others are listed above.",
    ),
    (
        "Features",
        "ApiVersions lists the features of the KRaft cluster (KIP-584).",
        "Lists `group.version` and `transaction.version` with the same levels, but no features for several "
        "nodes, their metadata, or unimplemented kinds of groups.",
    ),
    (
        "The quorum",
        "DescribeQuorum describes the metadata log: epoch, offsets, listeners of controllers.",
        "This node is the leader and only voter. Epoch and offsets are -1, because topics are kept in a "
        "file and not in a log.",
    ),
    (
        "Records inside a batch",
        "Reads the records of every batch, and refuses a wrong count, or bytes that the codec cannot read.",
        "Checks header and checksum, and writes the batch as it came. Records are read only if a topic's "
        "configs require it (another codec, timestamp limits, compaction).",
    ),
    (
        "Messages of errors",
        "Most errors of Produce have no message.",
        "The error code is the same, and a message gives the reason.",
    ),
    (
        "Requests that make no sense",
        "UNKNOWN_SERVER_ERROR for an unknown alter operation, a topic with neither name nor id, or a member "
        "epoch without a member in OffsetFetch.",
        "INVALID_REQUEST, or UNKNOWN_MEMBER_ID: the client is at fault, not the server.",
    ),
    (
        "A partition twice in a Produce request",
        "Writes one of the two record sets and ignores the other.",
        "Writes both in order and answers both.",
    ),
    (
        "Topics made by Metadata",
        "Answers UNKNOWN_TOPIC_OR_PARTITION at first; a later request finds the topic.",
        "The first answer contains the topic.",
    ),
    (
        "Replication",
        "Refuses a replication factor that the brokers cannot reach. `min.insync.replicas` is a dynamic "
        "config of the cluster since eligible leader replicas (KIP-966).",
        "The same code, INVALID_REPLICATION_FACTOR, with a message that names the Apache Kafka engine. "
        "`min.insync.replicas` has its default.",
    ),
    (
        "Followers",
        "A Fetch with a replica id or a last fetched epoch is checked against the replicas.",
        "There are no replicas: such a fetch is treated as a consumer's.",
    ),
    (
        "A topic deleted during a fetch",
        "Answers a waiting fetch, or one in a session, with UNKNOWN_TOPIC_OR_PARTITION, even if topics are "
        "named by id.",
        "Answers UNKNOWN_TOPIC_ID, as for every unknown id.",
    ),
    (
        "The largest timestamp after DeleteRecords",
        "ListOffsets may return a deleted record.",
        "ListOffsets returns only records that can be read.",
    ),
    (
        "Arrays of negative length",
        "Every negative length means null.",
        "Only -1 means null; other negative lengths end the connection.",
    ),
    (
        "Broker configs",
        "Describes all its configs.",
        "Describes the configs listed below.",
    ),
    (
        "Documentation of configs",
        "Kafka's own text, with HTML.",
        "A sentence about what the config does here.",
    ),
    (
        "Configs of groups",
        "Accepts them for resource type 32.",
        "Refuses them: every group uses the configs of the node, which DescribeConfigs shows as read-only.",
    ),
)

# Differences that a comparison of single answers does not show.
BEYOND_ANSWERS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "Several requests on one connection",
        "Handles each request after the previous one was answered.",
        "Handles requests as they arrive and answers them in order: a waiting fetch does not delay a "
        "produce.",
    ),
    (
        "Producer snapshots",
        "Keep the newest batch of each producer.",
        "Keep the last five, behind Kafka's part of the file, so that retries after a crash are recognised.",
    ),
    (
        "Recovery after a crash",
        "Checks all segments since the last flush.",
        "If the machine has not restarted, checks only what was written in the last seconds, because "
        "nothing older can be lost. Otherwise as in Kafka.",
    ),
    (
        "The end of a transaction",
        "Answers EndTxn when the outcome is decided; the markers follow. A producer that starts its next "
        "transaction at once gets CONCURRENT_TRANSACTIONS and retries.",
        "Writes the markers before it handles the producer's next request, which finds the id free.",
    ),
    (
        "A transactional id that is taken over while its transaction is open",
        "Answers InitProducerId with CONCURRENT_TRANSACTIONS until the open transaction is aborted.",
        "Aborts the transaction first; the new producer gets its epoch with the first answer. With "
        "fsync=always as in Kafka.",
    ),
    (
        "A producer that was replaced by another comes back with its old epoch",
        "InitProducerId checks the epoch only while no transaction is open: an open one is aborted, whoever "
        "owns it.",
        "Answers PRODUCER_FENCED; the transaction of the newer producer continues.",
    ),
    (
        "Transactions that take too long",
        "Looks for them every ten seconds (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).",
        "Aborts them as soon as they time out.",
    ),
    (
        "`cleanup.policy=compact`",
        "Compacts closed segments, synced or not. The base timestamp of a rewritten batch is that of its "
        "first remaining record.",
        "Compacts closed segments once they are synced, which takes seconds. Rewritten batches keep their "
        "base timestamp; the timestamps of records are the same either way. By default a round holds about "
        "a million keys, Kafka's five million.",
    ),
    (
        "New assignments of groups of the consumer protocol",
        "At most one per second (`group.consumer.assignment.interval.ms`, KIP-1263).",
        "Immediately.",
    ),
    ("Results of DeleteTopics", "In any order.", "In the order of the request."),
)
