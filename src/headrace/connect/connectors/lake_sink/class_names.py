"""The Java classes that configurations of the lake sink name, and what they mean here."""

from __future__ import annotations

from typing import Final, Literal

from headrace.connect.converters import BYTES_CONVERTER, JSON_CONVERTER, STRING_CONVERTER
from headrace.lake.sink import ConverterKind, FileFormat, TableFormat

S3_SINK: Final = "io.confluent.connect.s3.S3SinkConnector"
LAKE_SINK: Final = "headrace.LakeSinkConnector"

S3_STORAGE: Final = "io.confluent.connect.s3.storage.S3Storage"
LOCAL_STORAGE: Final = "headrace.LocalStorage"

_FORMATS: Final = "io.confluent.connect.s3.format"
PARQUET_FORMAT: Final = f"{_FORMATS}.parquet.ParquetFormat"
AVRO_FORMAT: Final = f"{_FORMATS}.avro.AvroFormat"
JSON_FORMAT: Final = f"{_FORMATS}.json.JsonFormat"
BYTES_FORMAT: Final = f"{_FORMATS}.bytearray.ByteArrayFormat"
FORMATS: Final = {
    AVRO_FORMAT: FileFormat.AVRO,
    BYTES_FORMAT: FileFormat.BYTES,
    JSON_FORMAT: FileFormat.JSON,
    PARQUET_FORMAT: FileFormat.PARQUET,
}

TABLE_FORMATS: Final = {"delta": TableFormat.DELTA, "parquet": TableFormat.FILES}

Partitioner = Literal["default", "field", "time", "daily", "hourly", "field and time"]
_PARTITIONERS: Final = "io.confluent.connect.storage.partitioner"
DEFAULT_PARTITIONER: Final = f"{_PARTITIONERS}.DefaultPartitioner"
FIELD_PARTITIONER: Final = f"{_PARTITIONERS}.FieldPartitioner"
TIME_PARTITIONER: Final = f"{_PARTITIONERS}.TimeBasedPartitioner"
DAILY_PARTITIONER: Final = f"{_PARTITIONERS}.DailyPartitioner"
HOURLY_PARTITIONER: Final = f"{_PARTITIONERS}.HourlyPartitioner"
FIELD_AND_TIME_PARTITIONER: Final = "headrace.FieldAndTimePartitioner"
PARTITIONERS: Final[dict[str, Partitioner]] = {
    DEFAULT_PARTITIONER: "default",
    FIELD_PARTITIONER: "field",
    TIME_PARTITIONER: "time",
    DAILY_PARTITIONER: "daily",
    HOURLY_PARTITIONER: "hourly",
    FIELD_AND_TIME_PARTITIONER: "field and time",
}
# Those that Confluent gives a path and a duration of their own.
DAILY_PATH: Final = "'year'=YYYY/'month'=MM/'day'=dd"
HOURLY_PATH: Final = f"{DAILY_PATH}/'hour'=HH"
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

EXTRACTORS: Final = {
    name: short
    for short in ("Wallclock", "Record", "RecordField")
    for name in (short, f"{TIME_PARTITIONER}${short}TimestampExtractor")
}

AVRO_CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
CONVERTERS: Final = {
    AVRO_CONVERTER: ConverterKind.AVRO,
    BYTES_CONVERTER: ConverterKind.BYTES,
    JSON_CONVERTER: ConverterKind.JSON,
    STRING_CONVERTER: ConverterKind.STRING,
}

_SUBJECTS: Final = "io.confluent.kafka.serializers.subject"
SUBJECT_STRATEGIES: Final = {
    f"{_SUBJECTS}.{name}": name
    for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
}

# The chain that looks into the environment and the usual files, by its names in both versions of the SDK.
CREDENTIALS_CHAIN: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
CREDENTIALS_CHAINS: Final = frozenset(
    {CREDENTIALS_CHAIN, "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"}
)

# By the name in `parquet.codec`, the name that Spark writes. Hadoop's own framing of LZ4, which Spark calls
# `lz4`, is one that few other readers know.
CODECS: Final = {"none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4_raw"}
# The same for `avro.codec`, and for `s3.compression.type` of JSON and ByteArray files.
AVRO_CODECS: Final = {"null": "uncompressed", "deflate": "deflate", "snappy": "snappy", "bzip2": "bzip2"}
COMPRESSIONS: Final = {"none": "none", "gzip": "gzip"}
