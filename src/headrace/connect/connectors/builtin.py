"""The plugins that every worker has."""

from __future__ import annotations

from collections.abc import Sequence

import headrace
from headrace.connect.connectors.file_sink import file_sink
from headrace.connect.connectors.file_source import file_source
from headrace.connect.connectors.files import Files
from headrace.connect.connectors.lake_sink.plugin import lake_sinks
from headrace.connect.connectors.lake_sink.stores import Folders
from headrace.connect.generator.source import generator_source
from headrace.connect.plugins import Plugin, Plugins


def builtin_plugins(
    files: Files, *, lake_folders: Folders | None = None, standard_streams: bool = False
) -> Plugins:
    """`standard_streams`: file connectors without a file use standard input and output. Without
    `lake_folders` there is no lake sink: nothing would run it.
    """
    version = headrace.__version__
    lake: Sequence[Plugin] = [] if lake_folders is None else [*lake_sinks(lake_folders, version)]
    return Plugins(
        [
            file_source(files, version, reads_standard_input=standard_streams),
            file_sink(files, version, writes_standard_output=standard_streams),
            generator_source(version),
            *lake,
        ]
    )
