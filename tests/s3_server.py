"""A real S3 server for tests: S3Proxy, with buckets that are folders.

It needs Java and artifacts from Maven, as everything else here does; versitygw would need Go. It admits one
of many conditional puts (`If-None-Match: *`), checks signatures, and has multipart uploads. Not so: a copy
ignores conditions.

Its jar refers to the clients of several clouds, which are not on its class path. Hence the verification of
classes is off, which would load them; Amazon's, whose exceptions it catches, are those of Spark's `s3` group.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.core import settings
from headrace.java.artifacts import Artifacts
from headrace.java.pinned import parse_pinned_list
from headrace.java.process import JavaProcess
from headrace.java.runtime import JavaRuntime
from headrace.lake.sink import S3Storage
from tests.ports import free_port

ACCESS_KEY: Final = "AKIAHEADRACETESTS"
SECRET_KEY: Final = "a-secret-that-nobody-may-print"
REGION: Final = "eu-central-1"

_FLAGS: Final = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
_START_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """`folder` has a folder for each bucket."""

    endpoint: str
    folder: Path

    @property
    def client(self) -> Any:
        # Imported here: most runs need neither the server nor this.
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=32),
        )

    def new_bucket(self, name: str = "") -> S3Storage:
        """A bucket that no other test uses, unless it has a name."""
        bucket = name or f"bucket-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=bucket)
        return self.storage(bucket)

    def storage(self, bucket: str) -> S3Storage:
        return S3Storage(
            bucket=bucket,
            region=REGION,
            endpoint=self.endpoint,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
        )


@contextmanager
def running_s3_server(folder: Path, java: JavaRuntime, port: int = 0) -> Iterator[S3Server]:
    """A server that ends with the block, on a free port unless one is given."""
    port = port or free_port()
    (folder / "buckets").mkdir(parents=True, exist_ok=True)
    configured = folder / "s3proxy.properties"
    lines = {
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": ACCESS_KEY,
        "s3proxy.credential": SECRET_KEY,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "buckets"),
    }
    configured.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    class_path = os.pathsep.join(map(str, _jars()))
    main = ("-cp", class_path, "org.gaul.s3proxy.Main", "--properties", str(configured))
    process = JavaProcess(
        [str(java.home / "bin" / "java"), *_FLAGS, *main], folder=folder, log_file=folder / "s3proxy.log"
    )
    try:
        _wait_until_open(process, port)
        yield S3Server(endpoint=f"http://127.0.0.1:{port}", folder=folder / "buckets")
    finally:
        process.stop(timeout=0)


def _jars() -> Iterator[Path]:
    cache = settings.load({}, environ=os.environ, folder=Path("/")).cache_dir
    pinned = parse_pinned_list(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return itertools.chain(Artifacts(cache, pinned).jars("s3proxy"), Artifacts(cache).jars("s3"))


def _wait_until_open(process: JavaProcess, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.exit_code is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"S3Proxy does not listen on port {port}:\n{process.last_lines()}")
