"""The connection to an S3 server: one client for each storage, and its errors in our words.

Credentials come from the connector's settings; without, from the environment or the usual AWS files, as
boto3 finds them. They are in no error. A server that hangs is an error after about a minute. boto3 is only
imported if a table is in a bucket.
"""

from __future__ import annotations

import errno
import functools
import os
from typing import Any, Final

from headrace.lake.sink import S3Storage
from headrace.lake.storage.table_files import StorageError

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 15
ATTEMPTS: Final = 4
# Of somebody who only wants to know whether the server answers.
HASTY_SECONDS: Final = 5
HASTY_ATTEMPTS: Final = 2
# Requests of one client at the same time.
CONNECTIONS: Final = 16

_NO_SUCH_KEY: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_REFUSED_CONDITION: Final = frozenset({"PreconditionFailed", "412"})
_CONFLICT: Final = frozenset({"ConditionalRequestConflict", "409"})
# Errors after which other credentials may have been put where they were found.
_NOT_ALLOWED: Final = frozenset(
    {"AccessDenied", "403", "Forbidden", "ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
)


class ConditionRefusedError(StorageError):
    """There is such an object already."""


class ConflictError(StorageError):
    """Somebody else changed the object at the same time; the request may be repeated."""


class Bucket:
    """Requests to the bucket of one storage. One that `is_hasty` gives up after some seconds."""

    def __init__(self, storage: S3Storage, *, is_hasty: bool = False) -> None:
        self._storage = storage
        self._is_hasty = is_hasty

    def ask(self, operation: str, key: str, **arguments: Any) -> dict[str, Any]:
        """One operation of boto3's client. Raises FileNotFoundError, or a StorageError."""
        from botocore.exceptions import (  # noqa: PLC0415
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            PartialCredentialsError,
        )

        try:
            client = _client(self._storage, is_hasty=self._is_hasty)
            answer: dict[str, Any] = getattr(client, operation)(Bucket=self._storage.bucket, **arguments)
        except ClientError as error:
            raise self._translated(operation, key, error.response) from error
        except BotoCoreError as error:
            if isinstance(error, NoCredentialsError | PartialCredentialsError):
                _client.cache_clear()
            raise self.failure(operation, key, str(error)) from error
        return answer

    def failure(self, operation: str, key: str, reason: str) -> StorageError:
        where = f" of {self._storage.endpoint_url}" if self._storage.endpoint else ""
        text = f"{operation} of s3://{self._storage.bucket}/{key}{where}: {reason.rstrip('.')}"
        return StorageError(errno.EIO, text)

    def _translated(self, operation: str, key: str, response: Any) -> OSError:
        code, text = str(response["Error"].get("Code", "")), str(response["Error"].get("Message", ""))
        failure = self.failure(operation, key, f"{code}: {text}" if text else code)
        if code in _NO_SUCH_KEY:
            return FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), f"s3://{self._storage.bucket}/{key}"
            )
        if code in _REFUSED_CONDITION:
            return ConditionRefusedError(*failure.args)
        if code in _CONFLICT:
            return ConflictError(*failure.args)
        if code in _NOT_ALLOWED:
            _client.cache_clear()
        return failure


@functools.lru_cache(maxsize=32)
def _client(storage: S3Storage, *, is_hasty: bool = False) -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.session.Session().client(
        "s3",
        endpoint_url=storage.endpoint_url or None,
        region_name=storage.region,
        aws_access_key_id=storage.access_key or None,
        aws_secret_access_key=storage.secret_key or None,
        config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=HASTY_SECONDS if is_hasty else READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": HASTY_ATTEMPTS if is_hasty else ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            s3={"addressing_style": "path" if storage.path_style else "virtual"},
            # Servers other than Amazon's need not know checksums in trailers.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # Hadoop, which writes the data files, knows no such variables.
            ignore_configured_endpoint_urls=True,
            tcp_keepalive=True,
        ),
    )
