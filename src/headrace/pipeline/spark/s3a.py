"""Tables in buckets, as Spark reaches them: Hadoop's S3 file system, set up for each bucket by itself.

So buckets of several servers, with different credentials, live in one JVM. Two storages with the same bucket
name do not: the last one counts. The settings are Hadoop's own and not Spark's: they appear neither in
Spark's pages nor in its logs. A server that hangs is an error after one to two minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from headrace.lake.sink import S3Storage

_OF_KEYS: Final = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
# The environment, the usual AWS files, and the roles of containers and machines.
_OF_THE_MACHINE: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"

# Several queries may be started at once, and Hadoop's settings are changed one by one.
_changing: Final = threading.Lock()

_FOR_ALL: Final[Mapping[str, str]] = {
    # Hadoop takes no shorter ones.
    "connection.establish.timeout": "15s",
    "connection.timeout": "15s",
    "connection.request.timeout": "15s",
    "connection.part.upload.timeout": "60s",
    # The client repeats requests, and the file system repeats what the client gave up.
    "attempts.maximum": "1",
    "retry.limit": "2",
    "retry.interval": "250ms",
    "retry.throttle.limit": "5",
    "retry.throttle.interval": "250ms",
    # The defaults are for clusters.
    "threads.max": "16",
    "connection.maximum": "64",
}


def s3a_settings(storage: S3Storage) -> dict[str, str]:
    """Settings of Hadoop for the bucket of this storage."""
    settings = {
        **_FOR_ALL,
        "endpoint.region": storage.region,
        "path.style.access": str(storage.path_style).lower(),
        "aws.credentials.provider": _OF_KEYS if storage.access_key else _OF_THE_MACHINE,
    }
    if storage.endpoint:
        settings["endpoint"] = storage.endpoint_url
    if storage.access_key:
        settings |= {"access.key": storage.access_key, "secret.key": storage.secret_key}
    return {f"{_prefix(storage)}{name}": value for name, value in settings.items()}


def use_storage(spark: SparkSession, storage: S3Storage) -> None:
    """Let the session reach the bucket. Call it before reading or writing there, and after each change."""
    jvm, context = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None
    assert context is not None
    with _changing:
        _configure(jvm, context.hadoopConfiguration(), storage)


def _configure(jvm: Any, configuration: Any, storage: S3Storage) -> None:
    wanted = s3a_settings(storage)
    prefix = _prefix(storage)
    known = {f"{prefix}{name}": value for name, value in configuration.getPropsWithPrefix(prefix).items()}
    if known == wanted:
        return
    for name in known.keys() - wanted.keys():
        configuration.unset(name)
    for name, value in wanted.items():
        configuration.set(name, value)
    if known:
        # Hadoop keeps one file system for a bucket, with the settings that it was made with.
        bucket = jvm.java.net.URI(f"s3a://{storage.bucket}/")
        jvm.org.apache.hadoop.fs.FileSystem.get(bucket, configuration).close()


def _prefix(storage: S3Storage) -> str:
    return f"fs.s3a.bucket.{storage.bucket}."
