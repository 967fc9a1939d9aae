"""The files of a table in a bucket: objects below a prefix.

Durable are objects as soon as the server has answered, so there is nothing to sync. A file is added with the
condition that there is none (`If-None-Match: *`), of which the server admits one. A server that does not
know the condition would overwrite commits: the first file that is added finds that out.

An answer that is lost says nothing about the request. A repetition is refused then if the first one was
carried out. So whoever is refused, or gets no answer, reads the object back: with the content that was sent,
which nobody else sends, it was added. Without an answer and an object, adding fails, and the object may still
appear later: its writer must look at the table again before it goes on.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.lake.storage import s3_client
from headrace.lake.storage.s3_client import Bucket, ConditionRefusedError, ConflictError
from headrace.lake.storage.table_files import (
    NOT_WHOLE,
    PARQUET_MARK,
    Identity,
    Publication,
    StorageError,
    StoredFile,
)

_PAUSE_SECONDS: Final = 0.2
# Storages whose server is known to honour conditions.
_honoured: set[S3Storage] = set()


class S3Files:
    def __init__(self, storage: S3Storage, prefix: str, *, is_hasty: bool = False) -> None:
        """If it `is_hasty`, requests fail after some seconds."""
        self._storage = storage
        self._prefix = prefix.strip("/")
        self._bucket = Bucket(storage, is_hasty=is_hasty)

    @property
    def location(self) -> Location:
        return Location(storage=self._storage, key=self._prefix)

    def check_answers(self) -> None:
        # Nothing more is asked of the credentials than `names` needs.
        prefix = f"{self._key('')}/".lstrip("/")
        Bucket(self._storage, is_hasty=True).ask("list_objects_v2", prefix, Prefix=prefix, MaxKeys=1)

    def names(self, folder: str) -> list[str]:
        return [name for name in self._listed(folder, "Contents", "Key") if name]

    def folders(self, folder: str) -> list[str]:
        return [name.rstrip("/") for name in self._listed(folder, "CommonPrefixes", "Prefix")]

    def remove_empty(self, folder: str) -> None:
        # Hadoop has an object for a folder that it has made, until something is in it.
        for each in (f"{self._key(folder)}/", f"{self._prefix}/"):
            found = [entry["Key"] for page in self._pages(each) for entry in page.get("Contents", ())]
            if all(key.endswith("/") for key in found):
                for key in found:
                    self._delete(key)

    def read(self, name: str) -> bytes:
        return self._read(name)[0]

    def identity(self, name: str) -> Identity | None:
        """Its ETag, and its version if the bucket keeps versions."""
        key = self._key(name)
        try:
            return _identity(self._bucket.ask("head_object", key, Key=key))
        except FileNotFoundError:
            # The answer does not say whether only the object is missing.
            self._check_bucket(key)
            return None

    def add(self, name: str, content: bytes, *, check: Callable[[], None]) -> Identity:
        self._check_conditions(name)
        check()
        key = self._key(name)
        for attempt in range(s3_client.ATTEMPTS):
            try:
                return _identity(self._put_new(key, content))
            except ConditionRefusedError:
                return self._added(name, content)
            except ConflictError:
                time.sleep(_PAUSE_SECONDS * 2**attempt)
            except StorageError as error:
                try:
                    return self._added(name, content)
                except (FileNotFoundError, StorageError):
                    raise error from None
        raise self._bucket.failure("put_object", key, "other requests for the object keep coming in between")

    def flaws(self, sizes: Mapping[str, int | None]) -> dict[str, str]:
        if not sizes:
            return {}
        with ThreadPoolExecutor(s3_client.CONNECTIONS) as together:
            found = together.map(self._flaw, sizes, sizes.values())
            return {name: flaw for name, flaw in zip(sizes, found, strict=True) if flaw is not None}

    def sync(self, names: Iterable[str]) -> None:
        """Nothing to do: see the module's text."""

    def sync_log(self, names: Iterable[str], folder: str) -> None:
        """Nothing to do: see the module's text."""

    def sync_table(self) -> None:
        """Nothing to do: see the module's text."""

    def move(self, name: str, folder: str) -> None:
        """Copied, then deleted: after a crash it may be in both places."""
        source, file = self._key(name), name.rpartition("/")[2]
        free, number = f"{folder}/{file}", 0
        while self.identity(free) is not None:
            number += 1
            free = f"{folder}/{file}.{number}"
        copied = {"Bucket": self._storage.bucket, "Key": source}
        self._bucket.ask("copy_object", source, Key=self._key(free), CopySource=copied)
        self._bucket.ask("delete_object", source, Key=source)

    def below(self, folder: str) -> Iterator[StoredFile]:
        prefix = f"{self._key(folder)}/" if self._key(folder) else ""
        for page in self._pages(prefix):
            for each in page.get("Contents", ()):
                name = each["Key"].removeprefix(f"{self._prefix}/") if self._prefix else each["Key"]
                modified = int(each["LastModified"].timestamp() * 1000)
                yield StoredFile(name=name, size=each["Size"], modified_ms=modified)

    def delete(self, names: Iterable[str]) -> None:
        # One by one: not every server has the request for many, and deleting is never urgent.
        with ThreadPoolExecutor(s3_client.CONNECTIONS) as together:
            list(together.map(self._delete, map(self._key, names)))

    def retract(self, names: Iterable[str]) -> None:
        self.delete(names)

    def write(self, name: str, content: memoryview) -> None:
        self.replace(name, bytes(content))

    def make_folder(self, folder: str) -> None:
        """Nothing to do: a folder is there as long as it has objects."""

    def publish(self, files: Iterable[Publication]) -> None:
        """Copied by the server: an object appears as a whole."""
        with ThreadPoolExecutor(s3_client.CONNECTIONS) as together:
            list(together.map(self._publish, files))

    def replace(self, name: str, content: bytes) -> None:
        key = self._key(name)
        self._bucket.ask("put_object", key, Key=key, Body=content)

    def remove_folder(self, folder: str) -> None:
        """Hadoop's markers of folders included: empty objects whose names end with a slash."""
        pages = list(self._pages(f"{self._key(folder)}/"))
        with ThreadPoolExecutor(s3_client.CONNECTIONS) as together:
            keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
            list(together.map(self._delete, keys))

    def _publish(self, file: Publication) -> None:
        source, key = self._key(file.source), self._key(file.name)
        try:
            found = self._bucket.ask("head_object", key, Key=key)["ContentLength"]
        except FileNotFoundError:
            copied = {"Bucket": self._storage.bucket, "Key": source}
            self._bucket.ask("copy_object", source, Key=key, CopySource=copied)
            return
        if found != file.size:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.location / file.name))

    def _delete(self, key: str) -> None:
        self._bucket.ask("delete_object", key, Key=key)

    def _put_new(self, key: str, content: bytes) -> dict[str, Any]:
        return self._bucket.ask("put_object", key, Key=key, Body=content, IfNoneMatch="*")

    def _added(self, name: str, content: bytes) -> Identity:
        """Raises FileExistsError if the object is somebody else's, FileNotFoundError if there is none."""
        found, identity = self._read(name)
        if found != content:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.location / name))
        return identity

    def _read(self, name: str, **arguments: str) -> tuple[bytes, Identity]:
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        key = self._key(name)
        attempt = 0
        while True:
            answer = self._bucket.ask("get_object", key, Key=key, **arguments)
            try:
                return answer["Body"].read(), _identity(answer)
            except BotoCoreError as error:
                # The client repeats requests, but not an answer that breaks off.
                attempt += 1
                if attempt == s3_client.ATTEMPTS:
                    raise self._bucket.failure("get_object", key, str(error)) from error

    def _flaw(self, name: str, size: int | None) -> str | None:
        """Objects are whole, so the end is enough."""
        key = self._key(name)
        try:
            length = self._bucket.ask("head_object", key, Key=key)["ContentLength"]
            if size is not None and length != size:
                return f"it has {length} bytes instead of {size}"
            if length < len(PARQUET_MARK):
                return NOT_WHOLE
            end, _ = self._read(name, Range=f"bytes=-{len(PARQUET_MARK)}")
        except FileNotFoundError as error:
            return str(error.strerror).lower()
        return None if end == PARQUET_MARK else NOT_WHOLE

    def _listed(self, folder: str, kind: str, field: str) -> list[str]:
        prefix = f"{self._key(folder)}/" if self._key(folder) else ""
        pages = self._pages(prefix, Delimiter="/")
        return [each[field].removeprefix(prefix) for page in pages for each in page.get(kind, ())]

    def _pages(self, prefix: str, **arguments: str) -> Iterator[dict[str, Any]]:
        more: dict[str, str] = {}
        while True:
            answer = self._bucket.ask("list_objects_v2", prefix, Prefix=prefix, **arguments, **more)
            yield answer
            if not answer.get("IsTruncated"):
                return
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    def _check_bucket(self, key: str) -> None:
        try:
            self._bucket.ask("head_bucket", key)
        except FileNotFoundError:
            raise self._bucket.failure("head_bucket", key, "there is no such bucket") from None

    def _check_conditions(self, name: str) -> None:
        if self._storage in _honoured:
            return
        folder, _, file = name.rpartition("/")
        key = self._key(f"{folder}/.{file}.{uuid.uuid4().hex}.unfinished")
        try:
            for _ in range(2):
                self._put_new(key, b"")
        except ConditionRefusedError:
            _honoured.add(self._storage)
        else:
            raise self._bucket.failure(
                "put_object", key, "the server ignores If-None-Match, so writers could overwrite each other"
            )
        finally:
            self._bucket.ask("delete_object", key, Key=key)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}".strip("/")


def _identity(answer: Mapping[str, Any]) -> Identity:
    return str(answer["ETag"]), str(answer.get("VersionId", ""))
