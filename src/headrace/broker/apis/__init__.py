"""The API keys that the broker answers, one file each. ApiVersions and dispatch use `ALL`.

The file of an API, `api_KEY_name.py`, is imported with the first request for it.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.api import Api

_APIS: Final = (
    Api(key=0, name="Produce", versions=(0, 13), lowest_served=3),
    Api(key=1, name="Fetch", versions=(4, 18)),
    Api(key=2, name="ListOffsets", versions=(1, 11)),
    Api(key=3, name="Metadata", versions=(0, 13)),
    Api(key=8, name="OffsetCommit", versions=(2, 10)),
    Api(key=9, name="OffsetFetch", versions=(1, 10)),
    Api(key=10, name="FindCoordinator", versions=(0, 6)),
    Api(key=11, name="JoinGroup", versions=(0, 9)),
    Api(key=12, name="Heartbeat", versions=(0, 4)),
    Api(key=13, name="LeaveGroup", versions=(0, 5)),
    Api(key=14, name="SyncGroup", versions=(0, 5)),
    Api(key=15, name="DescribeGroups", versions=(0, 6)),
    Api(key=16, name="ListGroups", versions=(0, 5)),
    Api(key=18, name="ApiVersions", versions=(0, 4)),
    Api(key=19, name="CreateTopics", versions=(2, 7)),
    Api(key=20, name="DeleteTopics", versions=(1, 6)),
    Api(key=21, name="DeleteRecords", versions=(0, 2)),
    Api(key=22, name="InitProducerId", versions=(0, 5)),
    Api(key=23, name="OffsetForLeaderEpoch", versions=(2, 4)),
    Api(key=24, name="AddPartitionsToTxn", versions=(0, 5)),
    Api(key=25, name="AddOffsetsToTxn", versions=(0, 4)),
    Api(key=26, name="EndTxn", versions=(0, 5)),
    Api(key=27, name="WriteTxnMarkers", versions=(1, 2)),
    Api(key=28, name="TxnOffsetCommit", versions=(0, 5)),
    Api(key=29, name="DescribeAcls", versions=(1, 3)),
    Api(key=32, name="DescribeConfigs", versions=(1, 4)),
    Api(key=33, name="AlterConfigs", versions=(0, 2)),
    Api(key=35, name="DescribeLogDirs", versions=(1, 5)),
    Api(key=37, name="CreatePartitions", versions=(0, 3)),
    Api(key=42, name="DeleteGroups", versions=(0, 2)),
    Api(key=43, name="ElectLeaders", versions=(0, 2)),
    Api(key=44, name="IncrementalAlterConfigs", versions=(0, 1)),
    Api(key=45, name="AlterPartitionReassignments", versions=(0, 1)),
    Api(key=46, name="ListPartitionReassignments", versions=(0, 0)),
    Api(key=47, name="OffsetDelete", versions=(0, 0)),
    Api(key=48, name="DescribeClientQuotas", versions=(0, 1)),
    Api(key=50, name="DescribeUserScramCredentials", versions=(0, 0)),
    Api(key=55, name="DescribeQuorum", versions=(0, 2)),
    Api(key=60, name="DescribeCluster", versions=(0, 2)),
    Api(key=61, name="DescribeProducers", versions=(0, 0)),
    Api(key=65, name="DescribeTransactions", versions=(0, 0)),
    Api(key=66, name="ListTransactions", versions=(0, 2)),
    Api(key=68, name="ConsumerGroupHeartbeat", versions=(0, 1)),
    Api(key=69, name="ConsumerGroupDescribe", versions=(0, 1)),
    Api(key=74, name="ListConfigResources", versions=(0, 1)),
    Api(key=75, name="DescribeTopicPartitions", versions=(0, 0)),
)
ALL: Final = {api.key: api for api in _APIS}
