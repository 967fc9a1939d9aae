"""The plugins that every worker has."""

from __future__ import annotations

import headrace
from headrace.connect.connectors.file_sink import file_sink
from headrace.connect.connectors.file_source import file_source
from headrace.connect.connectors.files import Files
from headrace.connect.generator.source import generator_source
from headrace.connect.plugins import Plugins


def builtin_plugins(files: Files, *, standard_streams: bool = False) -> Plugins:
    """`standard_streams`: file connectors without a file use standard input and output."""
    version = headrace.__version__
    return Plugins(
        [
            file_source(files, version, reads_standard_input=standard_streams),
            file_sink(files, version, writes_standard_output=standard_streams),
            generator_source(version),
        ]
    )
