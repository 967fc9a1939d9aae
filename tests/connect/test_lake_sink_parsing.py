"""From a configuration to the sink that the pipeline runs: its store, partitions, converters, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.connectors.lake_sink.checking import all_settings
from headrace.connect.connectors.lake_sink.parsing import is_lake_sink, lake_sink_of
from headrace.connect.converters import BYTES_CONVERTER, JSON_CONVERTER, STRING_CONVERTER
from headrace.connect.state.configs import ConnectorWish
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    ErrorPolicy,
    FileFormat,
    LakeSink,
    LocalStorage,
    NullValues,
    Partitioning,
    PlainStyle,
    S3Storage,
    TableFormat,
    TimePartitions,
)
from tests.connect.lake_sinks import (
    BOTH_PARTITIONER,
    FIELD_PARTITIONER,
    OURS,
    REGISTRY,
    S3,
    STORAGE,
    TIME,
    TIME_PARTITIONER,
    errors,
    folders,
    parsed,
    posted,
)

ACCEPTANCE = Path(__file__).parent.parent / "acceptance" / "s3-parquet-connector.json"
AVRO = "io.confluent.connect.avro.AvroConverter"
FORMATS = "io.confluent.connect.s3.format"
SUBJECTS = "io.confluent.kafka.serializers.subject"
TEXT = Converter(kind=ConverterKind.STRING)
HOIST = {
    "transforms": "h",
    "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.h.field": "line",
}


def test_the_connector_of_the_acceptance_tests_as_it_stands() -> None:
    assert parsed(posted(ACCEPTANCE)) == LakeSink(
        name="s3-parquet-sink",
        topics=("events_avro",),
        topics_regex="",
        storage=S3Storage(bucket="events-lake", region="us-east-1", endpoint="http://127.0.0.1:7070"),
        topics_dir="topics",
        key=TEXT,
        value=Converter(kind=ConverterKind.AVRO, registry_url="http://localhost:8081"),
        partitioning=Partitioning(fields=("EVENT_TYPE", "SERVER_DATE")),
        flush_size=10_000,
        commit_within_ms=60_000,
        file_format=FileFormat.PARQUET,
        table_format=TableFormat.DELTA,
        codec="snappy",
        null_values=NullValues.IGNORE,
        compatibility="BACKWARD",
        errors=ErrorPolicy(tolerates_all=True, dead_letter_topic="events_avro_dlq", has_context_headers=True),
    )


def test_ours_writes_to_the_lake_of_the_platform(tmp_path: Path) -> None:
    sink = parsed(dict(OURS), folders(tmp_path))
    assert sink.storage == LocalStorage(root=tmp_path / "lake")
    assert sink.topics_dir == ""
    assert sink.partitioning == Partitioning(by_partition=True)
    assert sink.value == Converter(kind=ConverterKind.AVRO, registry_url=REGISTRY)
    assert sink.key == TEXT
    assert sink.commit_within_ms is None
    assert not sink.errors.tolerates_all


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///lake", "lake"),
        ("file:///lake/inner/deep", "lake/inner/deep"),
        ("file://localhost/lake/", "lake"),
        ("file:///files", "files"),
        ("file:///files/my%20lake", "files/my lake"),
        ("file:///files/../lake/x", "lake/x"),
    ],
)
def test_folders_in_the_lake_and_those_that_are_allowed(tmp_path: Path, url: str, place: str) -> None:
    full = url.replace("file:///", f"file://{tmp_path}/").replace("localhost/", f"localhost{tmp_path}/")
    assert parsed({**OURS, "store.url": full}, folders(tmp_path)).storage == LocalStorage(
        root=tmp_path / place
    )


@pytest.mark.parametrize(
    "path",
    ["", "/broker", "/lake/../broker", "/lake2", "/files/../../elsewhere", "/lake/link", "/files/link/x"],
)
def test_other_folders_are_refused(tmp_path: Path, path: str) -> None:
    data = tmp_path / "data"
    for folder in ("lake", "files"):
        (data / folder).mkdir(parents=True)
        (data / folder / "link").symlink_to(tmp_path)
    found = errors({**OURS, "store.url": f"file://{data}{path}"}, folders(data))
    assert found.keys() == {"store.url"}
    assert "file_connector_folders" in found["store.url"][0]


@pytest.mark.parametrize(
    "url", ["/absolute", "file:relative", "file://host/x", "http://host", "s3://b", "file:///a%00b"]
)
def test_what_is_no_folder_is_refused(url: str) -> None:
    assert "file:///absolute/folder" in errors({**OURS, "store.url": url})["store.url"][0]


def test_confluent_s_class_may_write_to_folders_and_ours_to_a_bucket(tmp_path: Path) -> None:
    local = {**S3, "storage.class": "headrace.LocalStorage"}
    assert parsed(local, folders(tmp_path)).storage == LocalStorage(root=tmp_path / "lake")
    remote = {**OURS, "storage.class": S3["storage.class"]}
    assert errors(remote).keys() == {"s3.bucket.name"}
    assert parsed({**remote, "s3.bucket.name": "a-bucket"}).storage == S3Storage(
        bucket="a-bucket", region="us-west-2"
    )


def test_a_bucket_with_everything() -> None:
    changes = {
        "s3.region": "eu-west-1",
        "store.url": "https://store.example:9000/",
        "s3.path.style.access.enabled": "false",
        "aws.access.key.id": "id",
        "aws.secret.access.key": "secret",
        "topics.dir": "/a/b/",
    }
    sink = parsed({**S3, **changes})
    assert sink.storage == S3Storage(
        bucket="a-bucket",
        region="eu-west-1",
        endpoint="https://store.example:9000",
        path_style=False,
        access_key="id",
        secret_key="secret",
    )
    assert sink.topics_dir == "a/b"


@pytest.mark.parametrize(
    ("changes", "within"),
    [
        ({}, None),
        ({"rotate.interval.ms": "-1", "rotate.schedule.interval.ms": "0"}, None),
        ({"rotate.interval.ms": "500"}, 500),
        ({"rotate.interval.ms": "-1", "rotate.schedule.interval.ms": "900"}, 900),
        ({"rotate.interval.ms": "800", "rotate.schedule.interval.ms": "900"}, 800),
    ],
)
def test_the_smallest_rotation_bounds_the_time_to_a_commit(
    changes: dict[str, str], within: int | None
) -> None:
    assert parsed({**S3, **changes}).commit_within_ms == within


HOURS = (("year", "yyyy"), ("month", "MM"), ("day", "dd"), ("hour", "HH"))


@pytest.mark.parametrize(
    ("changes", "partitioning"),
    [
        ({}, Partitioning(by_partition=True)),
        (
            {
                "partitioner.class": FIELD_PARTITIONER,
                "partition.field.name": "kind, header.day",
                "partition.date.fields": "header.day",
            },
            Partitioning(fields=("kind", "header.day"), date_fields=("header.day",)),
        ),
        (
            TIME,
            Partitioning(
                time=TimePartitions(
                    columns=HOURS[:2], duration_ms=3_600_000, timezone="UTC", extractor="Wallclock"
                )
            ),
        ),
        (
            {
                "partitioner.class": f"{STORAGE}.DailyPartitioner",
                "timezone": "+05:30",
                "timestamp.extractor": "Record",
            },
            Partitioning(
                time=TimePartitions(
                    columns=HOURS[:3], duration_ms=86_400_000, timezone="+05:30", extractor="Record"
                )
            ),
        ),
        (
            {
                "partitioner.class": f"{STORAGE}.HourlyPartitioner",
                "timezone": "Asia/Seoul",
                "partition.duration.ms": "300000",
                "timestamp.extractor": f"{TIME_PARTITIONER}$RecordFieldTimestampExtractor",
                "timestamp.field": "header.at",
            },
            Partitioning(
                time=TimePartitions(
                    columns=HOURS,
                    duration_ms=3_600_000,
                    timezone="Asia/Seoul",
                    extractor="RecordField",
                    field="header.at",
                )
            ),
        ),
        (
            {**TIME, "partitioner.class": BOTH_PARTITIONER, "partition.field.name": "kind"},
            Partitioning(
                fields=("kind",),
                time=TimePartitions(columns=HOURS[:2], duration_ms=3_600_000, timezone="UTC"),
            ),
        ),
    ],
)
def test_every_partitioner(changes: dict[str, str], partitioning: Partitioning) -> None:
    assert parsed({**S3, **changes}).partitioning == partitioning


@pytest.mark.parametrize(
    ("changes", "converter"),
    [
        (
            {"value.converter": AVRO, "value.converter.schema.registry.url": "https://registry/"},
            Converter(kind=ConverterKind.AVRO, registry_url="https://registry"),
        ),
        (
            {"value.converter.value.subject.name.strategy": f"{SUBJECTS}.TopicRecordNameStrategy"},
            Converter(
                kind=ConverterKind.AVRO, registry_url=REGISTRY, subject_strategy="TopicRecordNameStrategy"
            ),
        ),
        ({"value.converter": JSON_CONVERTER}, Converter(kind=ConverterKind.JSON, has_schemas=True)),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "FALSE"},
            Converter(kind=ConverterKind.JSON),
        ),
        ({"value.converter": STRING_CONVERTER, **HOIST}, TEXT),
        ({"value.converter": BYTES_CONVERTER, **HOIST}, Converter(kind=ConverterKind.BYTES)),
    ],
)
def test_every_converter(changes: dict[str, str], converter: Converter) -> None:
    assert parsed({**S3, **changes}).value == converter


def test_the_key_has_a_strategy_and_a_registry_of_its_own() -> None:
    config = {
        **S3,
        "key.converter": AVRO,
        "key.converter.schema.registry.url": "http://keys:1",
        "key.converter.key.subject.name.strategy": f"{SUBJECTS}.RecordNameStrategy",
        "key.converter.value.subject.name.strategy": f"{SUBJECTS}.TopicRecordNameStrategy",
    }
    sink = parsed(config)
    assert sink.key == Converter(
        kind=ConverterKind.AVRO, registry_url="http://keys:1", subject_strategy="RecordNameStrategy"
    )
    assert sink.value == Converter(kind=ConverterKind.AVRO, registry_url=REGISTRY)


def test_what_else_a_sink_has() -> None:
    sink = parsed(
        {
            **{name: value for name, value in S3.items() if name != "topics"},
            "topics.regex": "db\\..*",
            "parquet.codec": "LZ4",
            "schema.compatibility": "full",
            "behavior.on.null.values": "WRITE",
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
            "json.column": "rest",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "table.format": "DELTA",
            "consumer.override.auto.offset.reset": "latest",
        }
    )
    assert (sink.topics, sink.topics_regex) == ((), "db\\..*")
    assert (sink.codec, sink.compatibility, sink.null_values) == ("lz4_raw", "FULL", NullValues.WRITE)
    assert (sink.stores_keys, sink.stores_headers, sink.json_column) == (True, True, "rest")
    assert sink.starts_at_latest


def test_formats_other_than_parquet_are_plain_files() -> None:
    plain = parsed({**S3, "table.format": "parquet", "parquet.codec": "gzip"})
    assert (plain.table_format, plain.file_format, plain.codec) == (
        TableFormat.FILES,
        FileFormat.PARQUET,
        "gzip",
    )
    avro = parsed({**S3, "format.class": f"{FORMATS}.avro.AvroFormat"})
    assert (avro.table_format, avro.codec) == (TableFormat.FILES, "uncompressed")
    deflated = parsed({**S3, "format.class": f"{FORMATS}.avro.AvroFormat", "avro.codec": "deflate"})
    assert deflated.codec == "deflate"
    zipped = {"format.class": f"{FORMATS}.json.JsonFormat", "s3.compression.type": "gzip"}
    assert parsed({**S3, **zipped}).codec == "gzip"


def test_the_style_of_plain_files() -> None:
    bytes_files = {
        "format.class": f"{FORMATS}.bytearray.ByteArrayFormat",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    assert parsed({**S3, **bytes_files}).plain_style == PlainStyle()
    style = {
        "file.delim": "-",
        "filename.offset.zero.pad.width": "4",
        "format.bytearray.extension": ".log",
        "format.bytearray.separator": " \n",
    }
    assert parsed({**S3, **bytes_files, **style}).plain_style == PlainStyle(
        delimiter="-", offset_digits=4, bytes_ending=".log", bytes_separator=" \n"
    )


def test_a_configuration_with_errors_is_not_parsed() -> None:
    with pytest.raises(HeadraceError, match="Objects are not tagged") as raised:
        parsed({**S3, "s3.object.tagging": "true"})
    assert raised.value.code == "connector_invalid"
    with pytest.raises(HeadraceError, match="not the class of a lake sink"):
        parsed({**S3, "connector.class": "FileStreamSink"})


def test_a_wish_and_the_settings_of_a_platform_give_a_sink(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, host="0.0.0.0", registry_port=1234)
    wish = ConnectorWish(
        name="mine", config={"connector.class": "LakeSink", "topics": "a,b,a"}, config_version=1
    )
    assert is_lake_sink(wish.config)
    assert not is_lake_sink({"connector.class": "FileStreamSink"})
    sink = lake_sink_of(wish, settings)
    assert (sink.name, sink.topics) == ("mine", ("a", "b"))
    assert sink.storage == LocalStorage(root=tmp_path / "lake")
    assert sink.value.registry_url == "http://127.0.0.1:1234"


NAMES = [each.name for each in all_settings(is_confluents=True)]
TRANSFORMS = [
    f"transforms.t.{name}" for name in ("type", "field", "fields", "spec", "predicate", "negate", "x")
]
PREDICATES = [f"predicates.p.{name}" for name in ("type", "name", "pattern")]
CONVERTERS = [
    f"{side}.converter{name}"
    for side in ("key", "value")
    for name in ("", ".schemas.enable", ".x", ".encoding")
]
KAFKA = "org.apache.kafka.connect.transforms"
TEXTS = st.one_of(
    st.text(max_size=10),
    st.sampled_from(
        ["", "true", "false", "-1", "0", "1", "99999999", "a,b", "t", "p", "UTC", "YYYY/MM", "write"]
    ),
    st.sampled_from([BOTH_PARTITIONER, FIELD_PARTITIONER, TIME_PARTITIONER, f"{STORAGE}.DailyPartitioner"]),
    st.sampled_from([AVRO, JSON_CONVERTER, STRING_CONVERTER, BYTES_CONVERTER, "headrace.LocalStorage"]),
    st.sampled_from(
        [f"{KAFKA}.Filter", f"{KAFKA}.HoistField$Value", f"{KAFKA}.predicates.RecordIsTombstone"]
    ),
    st.sampled_from(
        ["file:///", "file://x", "http://h:1", "http://h:x", "http://[", "RecordField", "latest"]
    ),
)


@given(
    st.sampled_from([S3, OURS]),
    st.dictionaries(
        st.sampled_from(
            [
                *NAMES,
                *TRANSFORMS,
                *PREDICATES,
                *CONVERTERS,
                "transforms",
                "predicates",
                "topics",
                "topics.regex",
            ]
        ),
        TEXTS,
        max_size=6,
    ),
)
def test_what_validate_accepts_can_be_parsed_and_nothing_else(
    config: dict[str, str], changes: dict[str, str]
) -> None:
    if errors({**config, **changes}):
        with pytest.raises(HeadraceError):
            parsed({**config, **changes})
    else:
        assert parsed({**config, **changes}) == parsed({**config, **changes})
