"""Settings of the lake sink about S3, and about keys and headers: the groups S3 and Keys and Headers."""

from __future__ import annotations

import re
from typing import Any, Final

from headrace.connect.connectors.lake_sink.class_names import (
    AVRO_FORMAT,
    CREDENTIALS_CHAIN,
    CREDENTIALS_CHAINS,
    FORMATS,
)
from headrace.connect.connectors.lake_sink.plain_file_settings import PLAIN_FILE_SETTINGS
from headrace.connect.connectors.lake_sink.settings_table import (
    KEYS_AND_HEADERS,
    S3,
    choice,
    hint,
    known_class,
    limit,
)
from headrace.connect.definitions import REQUIRED, Definition, at_least, between, one_of

_SMALLEST_PART: Final = 5 * 1024 * 1024
_LARGEST_INT: Final = 2**31 - 1
_LARGEST_LONG: Final = 2**63 - 1
# What Hadoop can write in the host of a URL: S3's own rule for buckets since 2018.
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z0-9-]+")
_COLUMNS: Final = "keys and headers are columns of the table, in its format."


def _wrong_bucket(name: Any) -> str:
    if name is None or name == "" or _BUCKET.fullmatch(name):
        return ""
    return "A bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens"


def _wrong_region(name: Any) -> str:
    return (
        "" if name and _REGION.fullmatch(name) else "A region's name has lower-case letters, digits, hyphens"
    )


def _wrong_provider(name: Any) -> str:
    if name in CREDENTIALS_CHAINS:
        return ""
    return (
        "Only the default chain is supported; it reads the environment and the usual AWS files. Or set "
        "aws.access.key.id and aws.secret.access.key"
    )


def s3_settings(*, is_confluents: bool) -> tuple[Definition, ...]:
    return (
        Definition(
            name="s3.bucket.name",
            kind="STRING",
            default=REQUIRED if is_confluents else "",
            importance="HIGH",
            documentation="Bucket to write to. Without effect on local folders.",
            group=S3,
            order_in_group=1,
            width="LONG",
            display_name="S3 Bucket",
            validator=_wrong_bucket,
        ),
        Definition(
            name="s3.region",
            kind="STRING",
            default="us-west-2",
            documentation="Region of the bucket. Any name with a store of your own.",
            group=S3,
            order_in_group=2,
            width="LONG",
            display_name="AWS region",
            validator=_wrong_region,
        ),
        Definition(
            name="s3.path.style.access.enabled",
            kind="BOOLEAN",
            default=True,
            importance="LOW",
            documentation="Whether the bucket is in the path of a URL, not in its host.",
            group=S3,
            order_in_group=3,
            width="SHORT",
            display_name="Enable Path Style Access to S3",
        ),
        Definition(
            name="aws.access.key.id",
            kind="STRING",
            default="",
            importance="HIGH",
            documentation="Access key. Without it, credentials come from the environment of the pipeline "
            "process or the usual AWS files.",
            group=S3,
            order_in_group=4,
            width="LONG",
            display_name="AWS Access Key ID",
        ),
        Definition(
            name="aws.secret.access.key",
            kind="PASSWORD",
            default="",
            importance="HIGH",
            documentation="Secret that belongs to `aws.access.key.id`.",
            group=S3,
            order_in_group=5,
            width="LONG",
            display_name="AWS Secret Access Key",
        ),
        Definition(
            name="s3.credentials.provider.class",
            kind="CLASS",
            default=CREDENTIALS_CHAIN,
            importance="LOW",
            documentation="Where credentials come from. Only the default chain is supported.",
            group=S3,
            order_in_group=6,
            width="LONG",
            display_name="AWS Credentials Provider Class",
            validator=_wrong_provider,
        ),
        choice(
            "behavior.on.null.values",
            "fail",
            ("fail", "ignore", "write"),
            "What becomes of records whose value is null. `write`: a row with only the key, so "
            "`store.kafka.keys` has to be true.",
            group=S3,
        ),
        *_LIMITS,
        *_HINTS,
        *PLAIN_FILE_SETTINGS,
    )


_LIMITS: Final = (
    limit("s3.object.tagging", "BOOLEAN", False, "Objects are not tagged"),
    limit("s3.object.tagging.key.value.pairs", "LIST", [], "Objects are not tagged"),
    limit("s3.ssea.name", "STRING", "", "Encryption is left to the bucket's own settings"),
    limit("s3.sse.customer.key", "PASSWORD", None, "Encryption is left to the bucket's own settings"),
    limit("s3.sse.kms.key.id", "STRING", "", "Encryption is left to the bucket's own settings"),
    limit("s3.acl.canned", "STRING", None, "Access is left to the bucket's own settings"),
    limit("s3.wan.mode", "BOOLEAN", False, "Accelerated endpoints are not supported", importance="MEDIUM"),
    limit("s3.proxy.url", "STRING", "", "Proxies are not supported"),
    limit("s3.proxy.user", "STRING", None, "Proxies are not supported"),
    limit("s3.proxy.password", "PASSWORD", None, "Proxies are not supported"),
    limit(
        "report.null.values.to.dlq",
        "BOOLEAN",
        False,
        "Records that behavior.on.null.values=ignore skips do not become dead letters",
    ),
    limit(
        "tombstone.encoded.partition",
        "STRING",
        "tombstone",
        "Rows without a value have no folder of their own; their partitions are null",
    ),
    limit(
        "s3.schema.partition.affix.type",
        "STRING",
        "NONE",
        "A table has one folder, whatever the names of its schemas are",
    ),
)

_HINTS: Final = (
    hint(
        "s3.part.size",
        "INT",
        26_214_400,
        "the size of the parts of an upload is chosen here.",
        importance="HIGH",
        validator=between(_SMALLEST_PART, _LARGEST_INT),
    ),
    hint(
        "s3.object.behavior.on.tagging.error",
        "STRING",
        "ignore",
        "objects are not tagged.",
        validator=one_of("ignore", "fail"),
    ),
    hint(
        "s3.part.retries",
        "INT",
        3,
        "failed requests are tried again as Hadoop's S3 client does.",
        importance="MEDIUM",
        validator=at_least(0),
    ),
    hint(
        "s3.retry.backoff.ms",
        "LONG",
        200,
        "failed requests are tried again as Hadoop's S3 client does.",
        validator=at_least(0),
    ),
    hint("s3.http.send.expect.continue", "BOOLEAN", True, "requests are made as Hadoop's S3 client does."),
    hint("s3.send.digest", "BOOLEAN", False, "Hadoop's S3 client has its own checksums."),
    hint("enable.conditional.writes", "BOOLEAN", True, "commits of the table prevent double rows."),
    hint("max.files.scan.limit", "INT", 100, "no folder is searched for files."),
    hint("max.write.duration.ms", "LONG", _LARGEST_LONG, "no consumer group waits for a write."),
    hint(
        "rotate.file.on.partition.change",
        "BOOLEAN",
        True,
        "a batch writes to all its partitions at once, late records included.",
    ),
    hint("partitioner.max.open.files", "INT", -1, "Spark sorts rows by partition where needed."),
    hint("s3.elastic.buffer.enable", "BOOLEAN", False, "memory for uploads is managed here."),
    hint(
        "s3.elastic.buffer.init.capacity",
        "INT",
        131_072,
        "memory for uploads is managed here.",
        validator=at_least(4096),
    ),
)

KEY_AND_HEADER_SETTINGS: Final = (
    Definition(
        name="store.kafka.keys",
        kind="BOOLEAN",
        default=False,
        importance="LOW",
        documentation="Whether the table has a column with the keys of records.",
        group=KEYS_AND_HEADERS,
        order_in_group=1,
        width="SHORT",
        display_name="Store kafka keys",
        dependents=("keys.format.class",),
    ),
    Definition(
        name="store.kafka.headers",
        kind="BOOLEAN",
        default=False,
        importance="LOW",
        documentation="Whether the table has a column with the headers of records.",
        group=KEYS_AND_HEADERS,
        order_in_group=2,
        width="SHORT",
        display_name="Store kafka headers",
        dependents=("headers.format.class",),
    ),
    hint(
        "keys.format.class",
        "CLASS",
        AVRO_FORMAT,
        _COLUMNS,
        group=KEYS_AND_HEADERS,
        validator=known_class(FORMATS),
    ),
    hint(
        "headers.format.class",
        "CLASS",
        AVRO_FORMAT,
        _COLUMNS,
        group=KEYS_AND_HEADERS,
        validator=known_class(FORMATS),
    ),
)
