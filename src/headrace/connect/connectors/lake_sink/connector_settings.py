"""Settings of the lake sink that say what is written and when: the groups Connector, Schema and Table."""

from __future__ import annotations

from typing import Final

from headrace.connect.connectors.lake_sink.class_names import (
    AVRO_CODECS,
    CODECS,
    FORMATS,
    PARQUET_FORMAT,
    TABLE_FORMATS,
)
from headrace.connect.connectors.lake_sink.settings_table import (
    CONNECTOR,
    SCHEMA,
    TABLE,
    choice,
    hint,
    known_class,
)
from headrace.connect.definitions import REQUIRED, Definition, at_least, between, one_of

# Enough rows for files of a useful size, for connectors of ours that do not say it.
_FLUSH_SIZE: Final = 1_000_000


def connector_settings(*, is_confluents: bool) -> tuple[Definition, ...]:
    """`is_confluents`: what Confluent's connector requires is required."""
    return (
        Definition(
            name="format.class",
            kind="CLASS",
            default=REQUIRED if is_confluents else PARQUET_FORMAT,
            importance="HIGH",
            documentation="Format of the data files: ParquetFormat, AvroFormat, JsonFormat, or "
            "ByteArrayFormat, which writes the values as they are. Parquet files are those of a Delta "
            "table, unless `table.format` says otherwise; others are plain files.",
            group=CONNECTOR,
            order_in_group=1,
            display_name="Format class",
            validator=known_class(FORMATS),
            recommended=tuple(FORMATS),
        ),
        Definition(
            name="flush.size",
            kind="INT",
            default=REQUIRED if is_confluents else _FLUSH_SIZE,
            importance="HIGH",
            documentation="Most rows of a data file when it is written. Small files of a Delta table are "
            "merged later. Plain files are written as soon as the topic has so many new records for each of "
            "its partitions, or the time of `rotate.interval.ms` is over.",
            group=CONNECTOR,
            order_in_group=2,
            width="LONG",
            display_name="Flush Size",
            validator=at_least(1),
        ),
        Definition(
            name="rotate.interval.ms",
            kind="LONG",
            default=-1,
            importance="HIGH",
            documentation="Longest time until rows are committed, in milliseconds of the clock, whatever the "
            "timestamps of the records are. The smaller of this and `rotate.schedule.interval.ms` counts; "
            "-1 for no limit of its own: plain files then wait five minutes for `flush.size`.",
            group=CONNECTOR,
            order_in_group=3,
            width="MEDIUM",
            display_name="Rotate Interval (ms)",
        ),
        Definition(
            name="rotate.schedule.interval.ms",
            kind="LONG",
            default=-1,
            documentation="Longest time until rows are committed, in milliseconds. Commits are not aligned "
            "to midnight. -1 for no limit of its own.",
            group=CONNECTOR,
            order_in_group=4,
            width="MEDIUM",
            display_name="Rotate Schedule Interval (ms)",
        ),
        choice(
            "parquet.codec",
            "snappy",
            tuple(CODECS),
            "Compression of the Parquet files. `lz4` is LZ4_RAW.",
            group=CONNECTOR,
        ),
        hint("schema.cache.size", "INT", 1000, "schemas are cached as needed.", group=CONNECTOR),
        hint("schemas.cache.config", "INT", 1000, "schemas are cached as needed.", group=CONNECTOR),
        hint(
            "enhanced.avro.schema.support",
            "BOOLEAN",
            True,
            "schemas of Avro files follow the columns of the table, where enums are text.",
            group=CONNECTOR,
        ),
        hint(
            "connect.meta.data",
            "BOOLEAN",
            True,
            "schemas of Avro files follow the columns of the table.",
            group=CONNECTOR,
        ),
        hint(
            "allow.optional.map.keys",
            "BOOLEAN",
            False,
            "schemas of Avro files follow the columns of the table.",
            group=CONNECTOR,
        ),
        choice("avro.codec", "null", tuple(AVRO_CODECS), "Compression of Avro files.", group=CONNECTOR),
        hint("retry.backoff.ms", "LONG", 5000, "attempts pause as the pipeline does.", group=CONNECTOR),
        hint(
            "shutdown.timeout.ms",
            "LONG",
            3000,
            "there is no Hive metastore to wait for.",
            group=CONNECTOR,
            importance="MEDIUM",
        ),
        Definition(
            name="filename.offset.zero.pad.width",
            kind="INT",
            default=10,
            importance="LOW",
            documentation="Least digits of the offset in the name of a plain file. Delta names the files of "
            "its tables.",
            group=CONNECTOR,
            validator=between(0, 100),
        ),
        hint(
            "schema.generator.class",
            "STRING",
            "",
            "older versions of the connector required it, for Hive.",
            group=CONNECTOR,
        ),
        choice(
            "schema.compatibility",
            "NONE",
            ("NONE", "BACKWARD", "FORWARD", "FULL"),
            "Which changes of a topic's schema the table follows; records that do not fit become dead "
            "letters or stop the connector, as `errors.tolerance` says. A new schema never "
            "begins a new table.",
            group=SCHEMA,
            importance="HIGH",
        ),
    )


TABLE_SETTINGS: Final = (
    Definition(
        name="table.format",
        kind="STRING",
        default="delta",
        documentation="`delta`: a Delta table, whose data files are Parquet. `parquet`: plain Parquet files, "
        "each row once for everybody who lists the folder, too. Other formats are always plain files. Ours.",
        group=TABLE,
        order_in_group=1,
        validator=one_of(*TABLE_FORMATS),
        recommended=tuple(TABLE_FORMATS),
    ),
    Definition(
        name="partition.date.fields",
        kind="LIST",
        default=[],
        documentation="Those of `partition.field.name` whose text must be a date, `yyyy-MM-dd`. Records with "
        "another text are bad records. Ours.",
        group=TABLE,
        order_in_group=2,
    ),
    Definition(
        name="json.column",
        kind="STRING",
        default="",
        documentation="Name of a text column that gets, as JSON, all fields that no other column has. Empty "
        "for none. Ours.",
        group=TABLE,
        order_in_group=3,
    ),
)
