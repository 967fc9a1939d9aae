"""Where the embedded broker answers otherwise than Apache Kafka 4.3.1, place by place.

A difference is accepted for places in the answers: scenario, version, label and path in the transcript, with
wildcards, and if need be only for certain answers. Every other difference fails `test_same_answers.py`; an
entry that no longer occurs fails it too. `what` is the name of the difference in
`headrace.broker.differences`, which says what Apache Kafka does, what happens here, and why;
`docs/compatibility.md` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

ANYTHING: Final = object()
MISSING: Final = "<missing>"

# Settings of the session's Apache Kafka, or of this machine, or of what is built so far.
OTHER_BROKER_SETTINGS: Final = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "group.coordinator.rebalance.protocols",
    "listener.security.protocol.map",
    "listeners",
    "log.cleaner.dedupe.buffer.size",
    "log.dirs",
    "num.partitions",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedDifference:
    """`place` is `<scenario>/v<version>/<label>/<path in the answer>`, with wildcards."""

    place: str
    what: str
    kafka: Any = ANYTHING
    embedded: Any = ANYTHING

    def covers(self, place: str, kafka: Any, embedded: Any) -> bool:
        return (
            fnmatchcase(place, self.place)
            and (self.kafka is ANYTHING or self.kafka == kafka)
            and (self.embedded is ANYTHING or self.embedded == embedded)
        )


ACCEPTED: Final = (
    AcceptedDifference(what="API keys", place="api_versions/v*/*/api_keys/*", embedded=MISSING),
    AcceptedDifference(what="Features", place="api_versions/v[34]/*/*features/*", embedded=MISSING),
    AcceptedDifference(what="Features", place="api_versions/v3/*/supported_features", embedded=[]),
    *(
        AcceptedDifference(what="The quorum", place=f"describe_quorum/v*/metadata/{place}")
        for place in ("topics/*/leader_epoch", "topics/*/high_watermark", "topics/*/log_end_offset")
    ),
    AcceptedDifference(what="The quorum", place="describe_quorum/v2/metadata/nodes/*"),
    AcceptedDifference(what="Records inside a batch", place="produce_bad_records/v*/*"),
    AcceptedDifference(what="Messages of errors", place="produce_*/error_message", kafka=None),
    AcceptedDifference(
        what="Messages of errors", place="alter_configs_incrementally/v*/*/error_message", kafka=None
    ),
    AcceptedDifference(
        what="Requests that make no sense",
        place="alter_configs_incrementally/v*/unknown operation/responses/*/error_code",
        kafka="unknown_server_error",
        embedded="invalid_request",
    ),
    AcceptedDifference(
        what="Requests that make no sense",
        place="metadata/v1[23]/neither name nor id/*error_code",
        kafka="unknown_server_error",
        embedded="invalid_request",
    ),
    AcceptedDifference(
        what="Requests that make no sense",
        place="offset_fetch_of_consumers/v*/nobody with an epoch/*/error_code",
        kafka="unknown_server_error",
        embedded="unknown_member_id",
    ),
    AcceptedDifference(
        what="A partition twice in a Produce request", place="produce_same_partition_twice/v*"
    ),
    AcceptedDifference(what="Topics made by Metadata", place="metadata_creates/v*/first/*"),
    AcceptedDifference(what="Replication", place="create_topics/v*/replicas 2/topics/0/error_message"),
    AcceptedDifference(what="Replication", place="*/min.insync.replicas/config_source", kafka=3, embedded=5),
    AcceptedDifference(
        what="Replication", place="describe_configs/v*/*/configs/min.insync.replicas/synonyms"
    ),
    # There min.insync.replicas is the one config that the cluster has set.
    AcceptedDifference(what="Replication", place="describe_configs/v*/default of brokers/*", embedded=[]),
    AcceptedDifference(what="Followers", place="fetch_as_follower/v*"),
    AcceptedDifference(what="Followers", place="fetch_from_nowhere/v1?/last fetched epoch to come/*"),
    AcceptedDifference(
        what="A topic deleted during a fetch",
        place="fetch_*/v1[3-8]/*",
        kafka="unknown_topic_or_partition",
        embedded="unknown_topic_id",
    ),
    AcceptedDifference(
        what="The largest timestamp after DeleteRecords", place="delete_records/v*/max timestamp*"
    ),
    AcceptedDifference(what="Arrays of negative length", place="bad_arrays/v0/-2 topics"),
    AcceptedDifference(
        what="Broker configs", place="describe_configs/v*/broker*/configs/*", embedded=MISSING
    ),
    *(
        AcceptedDifference(what="Broker configs", place=f"describe_configs/v*/broker*/configs/{name}/*")
        for name in OTHER_BROKER_SETTINGS
    ),
    AcceptedDifference(
        what="Documentation of configs", place="describe_configs/v*/*/configs/*/documentation"
    ),
    AcceptedDifference(what="Configs of groups", place="alter_configs_of_broker/v*/group/*"),
)
