"""Where the embedded broker differs from Apache Kafka 4.3.1 on purpose, as data for the compatibility page.

Invariant: the differences that the conformance tests accept (`tests/conformance/accepted_differences.py`) are
`DIFFERENCES`, no more and no less; a test holds both lists together.
"""

from __future__ import annotations

from typing import Final

# Keys, and why they are not served.
NOT_OFFERED: Final[tuple[tuple[str, str], ...]] = (
    (
        "SaslHandshake, SaslAuthenticate, CreateAcls, DeleteAcls, AlterUserScramCredentials, "
        "AlterClientQuotas, the keys of delegation tokens",
        "Security and quotas are not built yet. Who asks for ACLs, credentials and quotas hears that there "
        "are none.",
    ),
    (
        "AlterReplicaLogDirs, UnregisterBroker, AddRaftVoter, RemoveRaftVoter, UpdateFeatures",
        "There is one node with one folder, so there is nothing to move, to leave, to vote on or to upgrade.",
    ),
    (
        "The keys of share groups and streams groups",
        "Not built. Clients find that in ApiVersions and say so themselves (UnsupportedVersionException).",
    ),
)

# What; what Apache Kafka does; what happens here and why.
DIFFERENCES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "API keys",
        "Advertises 75 keys.",
        "Advertises those it serves, in the same versions; the others are listed above.",
    ),
    (
        "Features",
        "ApiVersions lists the features of the KRaft cluster (KIP-584).",
        "`group.version` and `transaction.version`, as there; none that is about several nodes, their "
        "metadata, or groups that are not built.",
    ),
    (
        "The quorum",
        "DescribeQuorum tells of the metadata log: epoch, offsets, listeners of controllers.",
        "This node is leader and only voter, and -1 stands for what is true of a log only: topics are a "
        "catalogue in a file.",
    ),
    (
        "Records inside a batch",
        "Reads the records of every batch, and refuses a wrong count, or bytes that the codec cannot read.",
        "Header and checksum are checked. The records are read only where a topic's configs ask for it "
        "(a codec of its own, timestamp limits, compaction): a batch is written as it came.",
    ),
    (
        "Messages of errors",
        "No message with most errors of Produce.",
        "The error code is the same, and a message says what was wrong.",
    ),
    (
        "Requests that make no sense",
        "UNKNOWN_SERVER_ERROR for an alter operation that does not exist, a topic with neither name nor id, "
        "the epoch of no member in OffsetFetch.",
        "INVALID_REQUEST, or UNKNOWN_MEMBER_ID: the client is at fault, not the server.",
    ),
    (
        "A partition twice in a Produce request",
        "Writes one of the two record sets and forgets the other.",
        "Both are written, in their order, and both are answered.",
    ),
    (
        "Topics made by Metadata",
        "UNKNOWN_TOPIC_OR_PARTITION at first; the topic comes with a later request.",
        "The topic is there in the first answer.",
    ),
    (
        "Replication",
        "A replication factor that the brokers cannot reach is refused. `min.insync.replicas` is a cluster's "
        "own config since eligible leader replicas (KIP-966).",
        "The same code, INVALID_REPLICATION_FACTOR, with a message that names the Apache Kafka engine. "
        "`min.insync.replicas` has its default.",
    ),
    (
        "Followers",
        "A Fetch with a replica id or a last fetched epoch is checked against the replicas.",
        "There are none: it is read as a consumer's.",
    ),
    (
        "A topic deleted during a fetch",
        "UNKNOWN_TOPIC_OR_PARTITION to a waiting fetch or in a session, also where topics are named by id.",
        "UNKNOWN_TOPIC_ID there, as for every id that is not known.",
    ),
    (
        "The largest timestamp after DeleteRecords",
        "ListOffsets can name a record that was deleted.",
        "Only records that can be read.",
    ),
    (
        "Arrays of negative length",
        "Every negative length is null.",
        "Only -1 is null, others end the connection.",
    ),
    (
        "Broker configs",
        "Describes all it has.",
        "Describes those below, as they are here: sockets, folders, listeners, what is built.",
    ),
    (
        "Documentation of configs",
        "Its own text, with HTML.",
        "A sentence of ours on what a config does here.",
    ),
    (
        "Configs of groups",
        "Taken for resource type 32.",
        "Refused: every group goes by the configs of the node, which DescribeConfigs shows as read-only.",
    ),
)

# The same, for what a comparison of single answers does not show.
BEYOND_ANSWERS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "Several requests on one connection",
        "Each is taken up after the one before it was answered.",
        "They are taken up as they come and answered in order: a fetch that waits holds up no produce.",
    ),
    (
        "Producer snapshots",
        "Keep the newest batch of each producer.",
        "Keep the last five, behind Kafka's part of the file, so that retries after a crash are recognised.",
    ),
    (
        "Recovery after a crash",
        "Checks all segments since the last flush.",
        "Checks what was written in the last seconds if the machine has not restarted, for then nothing "
        "older can be lost; otherwise as Kafka does.",
    ),
    (
        "The end of a transaction",
        "EndTxn is answered when the end is decided; the markers follow. Who begins the next transaction at "
        "once is told CONCURRENT_TRANSACTIONS, and comes again.",
        "EndTxn is answered when the markers are written, and the id is free.",
    ),
    (
        "A transactional id that is taken over while its transaction is open",
        "InitProducerId is answered with CONCURRENT_TRANSACTIONS until the open transaction is aborted.",
        "It is aborted first, and the new producer has its epoch with the first answer; with fsync=always "
        "as Kafka does.",
    ),
    (
        "A producer that was followed by another comes back with its old epoch",
        "InitProducerId looks at the epoch only while no transaction is open: an open one is aborted, "
        "whosever it is.",
        "PRODUCER_FENCED, and the transaction of the newer producer goes on.",
    ),
    (
        "Transactions that take too long",
        "Are looked for every ten seconds (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).",
        "Are aborted when their time is up.",
    ),
    (
        "`cleanup.policy=compact`",
        "Compacts what is in closed segments, synced or not. Rewritten batches get the timestamp of their "
        "first record left as base.",
        "Compacts what is synced, which closed segments are within seconds. Rewritten batches keep their "
        "base timestamp; records have the same timestamps either way. A round has room for about a million "
        "keys by default, Kafka's for five million.",
    ),
    (
        "New assignments of groups of the consumer protocol",
        "One a second at most (`group.consumer.assignment.interval.ms`, KIP-1263).",
        "At once.",
    ),
    ("Results of DeleteTopics", "In any order.", "In the order of the request."),
)
