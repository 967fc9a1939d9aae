"""The two plugins of the lake sink: Confluent's S3 sink by its class name, and `headrace.LakeSinkConnector`.

They have the same settings and run the same way, in the pipeline process; ours requires less and writes to
the platform's lake unless it is told otherwise. One connector has one task, whatever `tasks.max` says: Spark
shares its work out. Positions are in the tables, not in a consumer group.
"""

from __future__ import annotations

from typing import Final

from headrace.connect.connectors.lake_sink.checking import all_settings, read_values, wrong_settings
from headrace.connect.connectors.lake_sink.class_names import CONVERTERS, LAKE_SINK, S3_SINK
from headrace.connect.connectors.lake_sink.converter_settings import DEFAULTS
from headrace.connect.connectors.lake_sink.stores import Folders
from headrace.connect.plugins import Config, Errors, Plugin, Plugins

# JSON has no comments, so people write them as settings.
_COMMENTS: Final = "_comment"


def lake_sinks(folders: Folders, version: str) -> Plugins:
    return Plugins(
        [_plugin(S3_SINK, folders, version, is_confluents=True), _plugin(LAKE_SINK, folders, version)]
    )


def _plugin(class_name: str, folders: Folders, version: str, *, is_confluents: bool = False) -> Plugin:
    settings = all_settings(is_confluents=is_confluents)

    def check(config: Config) -> Errors:
        return wrong_settings(read_values(settings, config), config, folders)

    return Plugin(
        class_name=class_name,
        kind="sink",
        version=version,
        settings=settings,
        runs_in="pipeline",
        task_class=f"{class_name.removesuffix('Connector')}Task",
        check=check,
        checks_all=True,
        refuses_unknown=True,
        takes_transforms=True,
        dynamic_prefixes=("transforms.", "predicates.", _COMMENTS),
        converters=tuple(CONVERTERS),
        default_converters=DEFAULTS,
        offsets_in_group=False,
    )
