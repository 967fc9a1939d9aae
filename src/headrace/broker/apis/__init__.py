"""The API keys that the broker answers, one file each. `ALL` is what ApiVersions and dispatch go by."""

from __future__ import annotations

from typing import Final

from headrace.broker.api import Api
from headrace.broker.apis import (
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_32_describe_configs,
    api_33_alter_configs,
    api_35_describe_log_dirs,
    api_37_create_partitions,
    api_42_delete_groups,
    api_44_incremental_alter_configs,
    api_47_offset_delete,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_68_consumer_group_heartbeat,
    api_69_consumer_group_describe,
    api_75_describe_topic_partitions,
)

ALL: Final[dict[int, Api]] = {
    module.API.key: module.API
    for module in (
        api_00_produce,
        api_01_fetch,
        api_02_list_offsets,
        api_03_metadata,
        api_08_offset_commit,
        api_09_offset_fetch,
        api_10_find_coordinator,
        api_11_join_group,
        api_12_heartbeat,
        api_13_leave_group,
        api_14_sync_group,
        api_15_describe_groups,
        api_16_list_groups,
        api_18_api_versions,
        api_19_create_topics,
        api_20_delete_topics,
        api_21_delete_records,
        api_22_init_producer_id,
        api_23_offset_for_leader_epoch,
        api_32_describe_configs,
        api_33_alter_configs,
        api_35_describe_log_dirs,
        api_37_create_partitions,
        api_42_delete_groups,
        api_44_incremental_alter_configs,
        api_47_offset_delete,
        api_60_describe_cluster,
        api_61_describe_producers,
        api_68_consumer_group_heartbeat,
        api_69_consumer_group_describe,
        api_75_describe_topic_partitions,
    )
}
