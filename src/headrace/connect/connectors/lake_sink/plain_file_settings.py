"""Settings of the lake sink about plain files, and what they show only together with the format.

Invariant: a setting that is for another format than the one asked for is refused if somebody gives it a value
that would change something, rather than ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.connect.connectors.lake_sink.class_names import (
    AVRO_CODECS,
    CODECS,
    COMPRESSIONS,
    FORMATS,
    TABLE_FORMATS,
)
from headrace.connect.connectors.lake_sink.converter_settings import converter_kind
from headrace.connect.connectors.lake_sink.settings_table import S3, choice, wrong_in_name
from headrace.connect.definitions import Definition, between
from headrace.lake.sink import ConverterKind, FileFormat, PlainStyle, TableFormat

_SEPARATOR: Final = "format.bytearray.separator"
_EXTENSION: Final = "format.bytearray.extension"
_DECIMALS: Final = "json.decimal.format"
_COMPRESSED: Final = (FileFormat.JSON, FileFormat.BYTES)

PLAIN_FILE_SETTINGS: Final = (
    choice(
        "s3.compression.type",
        "none",
        tuple(COMPRESSIONS),
        "Compression of JSON and ByteArray files. Parquet has `parquet.codec`, Avro `avro.codec`.",
        group=S3,
    ),
    Definition(
        name="s3.compression.level",
        kind="INT",
        default=-1,
        importance="LOW",
        documentation="Level of gzip for JSON and ByteArray files: its default, -1, others are refused.",
        group=S3,
        validator=between(-1, 9),
    ),
    choice(
        _DECIMALS,
        "NUMERIC",
        ("BASE64", "NUMERIC"),
        "Decimals are numbers in JSON files; `BASE64` is refused for them.",
        group=S3,
        importance="MEDIUM",
    ),
    Definition(
        name=_EXTENSION,
        kind="STRING",
        default=".bin",
        importance="LOW",
        documentation="How the names of ByteArray files end.",
        group=S3,
        validator=wrong_in_name,
    ),
    Definition(
        name=_SEPARATOR,
        kind="STRING",
        default=None,
        importance="LOW",
        documentation="What follows each record in ByteArray files, taken as it is, spaces included. A new "
        "line without it.",
        group=S3,
    ),
)

Values = Mapping[str, Any]
Config = Mapping[str, str]


def wrong_formats(values: Values, config: Config) -> dict[str, str]:
    """What is wrong with the settings together, by their names. Those with errors of their own are None."""
    file_format = FORMATS.get(values["format.class"] or "")
    if file_format is None:
        return {}
    wrong: dict[str, str] = {}
    given = config.get("table.format", "").strip()
    if given and file_format is not FileFormat.PARQUET:
        wrong["table.format"] = "It is for ParquetFormat. Files of other formats are always plain files"
    if (values["s3.compression.type"] or "").lower() == "gzip" and file_format not in _COMPRESSED:
        wrong["s3.compression.type"] = (
            "It is for JSON and ByteArray files; parquet.codec compresses Parquet, avro.codec Avro"
        )
    if values["s3.compression.level"] not in (None, -1) and file_format in _COMPRESSED:
        wrong["s3.compression.level"] = "Only the default level, -1, is supported"
    if file_format is FileFormat.JSON and (values[_DECIMALS] or "").upper() == "BASE64":
        wrong[_DECIMALS] = "Decimals are numbers in JSON files: use NUMERIC"
    if file_format is FileFormat.BYTES:
        wrong |= _wrong_bytes(values, config)
    return wrong


def _wrong_bytes(values: Values, config: Config) -> dict[str, str]:
    wrong = {}
    if converter_kind(config, "value") not in (None, ConverterKind.BYTES):
        wrong["value.converter"] = "ByteArrayFormat writes values as they are: use ByteArrayConverter"
    if config.get(_SEPARATOR) == "":
        wrong[_SEPARATOR] = "It cannot be empty"
    for name in ("store.kafka.keys", "store.kafka.headers"):
        if values[name]:
            wrong[name] = "ByteArray files have only values"
    return wrong


def read_table_format(values: Values) -> TableFormat:
    """Of settings without errors."""
    if FORMATS[values["format.class"]] is not FileFormat.PARQUET:
        return TableFormat.FILES
    return TABLE_FORMATS[values["table.format"].lower()]


def read_codec(values: Values) -> str:
    """As Spark names it, of settings without errors."""
    match FORMATS[values["format.class"]]:
        case FileFormat.PARQUET:
            return CODECS[values["parquet.codec"].lower()]
        case FileFormat.AVRO:
            return AVRO_CODECS[values["avro.codec"].lower()]
        case _:
            return COMPRESSIONS[values["s3.compression.type"].lower()]


def read_plain_style(values: Values, config: Config) -> PlainStyle:
    """Of settings without errors."""
    return PlainStyle(
        delimiter=values["file.delim"],
        offset_digits=values["filename.offset.zero.pad.width"],
        bytes_ending=values[_EXTENSION],
        # Spaces mean something here, so it is not the value that was read, which has none around it.
        bytes_separator=config.get(_SEPARATOR) or "\n",
    )
