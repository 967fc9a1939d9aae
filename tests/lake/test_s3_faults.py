"""Commits to a bucket whose server fails: none is lost, and none is there twice."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.lake.delta_log import DeltaLog
from headrace.lake.location import Location
from headrace.lake.storage import s3, s3_client
from headrace.lake.storage.table_files import StorageError
from tests.faulty_s3 import Failure, FaultyS3, faulty_s3
from tests.lake.stored_tables import StoredTable, commit_name
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

COMMIT = r"_delta_log/\d{20}\.json$"


@pytest.fixture
def table(s3_server: S3Server, faulty: FaultyS3) -> StoredTable:
    storage = dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint)
    return StoredTable(Location(storage=storage) / "t", s3_server.client)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that gives up soon."""
    monkeypatch.setattr(s3_client, "READ_SECONDS", 0.3)
    s3_client._client.cache_clear()
    yield
    s3_client._client.cache_clear()


def _operations(log: DeltaLog) -> list[str]:
    return [commit.operation for version in log.versions() if (commit := log.commit(version)) is not None]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("failure", Failure)
def test_a_commit_whose_answer_is_lost_is_there_once(
    table: StoredTable, faulty: FaultyS3, failure: Failure
) -> None:
    log = table.fill(1)
    faulty.fail(failure, method="PUT", path=COMMIT)
    seen = log.add_commit(1, {"operation": "MINE"}, [], after=log.seen(0))
    assert faulty.failed == 1
    assert (log.versions(), seen) == ([0, 1], log.seen(1))
    log.add_commit(2, {"operation": "NEXT"}, [], after=seen)
    assert _operations(log) == ["WRITE", "MINE", "NEXT"]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("failure", [Failure.DROP_AFTER, Failure.UNAVAILABLE_AFTER, Failure.HANG_AFTER])
def test_a_commit_without_any_answer_is_read_back(
    table: StoredTable, faulty: FaultyS3, failure: Failure
) -> None:
    log = table.fill(1)
    faulty.fail(failure, method="PUT", path=COMMIT, times=-1)
    assert log.add_commit(1, {"operation": "MINE"}, []) == log.seen(1)
    assert faulty.failed == s3_client.ATTEMPTS


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("failure", [Failure.DROP, Failure.UNAVAILABLE, Failure.HANG])
def test_a_commit_that_never_arrives_is_an_error(
    table: StoredTable, faulty: FaultyS3, failure: Failure
) -> None:
    log = table.fill(1)
    faulty.fail(failure, method="PUT", path=COMMIT, times=-1)
    began = time.monotonic()
    with pytest.raises(StorageError, match=rf"put_object of s3://.*{commit_name(1)}") as error:
        log.add_commit(1, {"operation": "MINE"}, [])
    assert time.monotonic() - began < 60
    assert SECRET_KEY not in str(error.value)
    assert log.versions() == [0]
    faulty.heal()
    log.add_commit(1, {"operation": "AGAIN"}, [])
    assert _operations(log) == ["WRITE", "AGAIN"]


def test_what_another_has_committed_is_not_taken_for_ours(table: StoredTable, faulty: FaultyS3) -> None:
    log = table.fill(1)
    theirs = b'{"commitInfo":{"operation":"THEIRS"}}\n'
    faulty.fail(Failure.DROP, method="PUT", path=COMMIT)

    def check_and_be_overtaken() -> None:
        table.put(commit_name(1), theirs)

    with pytest.raises(FileExistsError):
        log.files.add(commit_name(1), b'{"commitInfo":{"operation":"MINE"}}\n', check=check_and_be_overtaken)
    assert table.read(commit_name(1)) == theirs


def test_an_answer_that_breaks_off_is_read_again(table: StoredTable, faulty: FaultyS3) -> None:
    log = table.fill(2)
    faulty.fail(Failure.CUT, method="GET", path=COMMIT)
    assert log.damage() is None
    assert faulty.failed == 1
    faulty.fail(Failure.CUT, method="GET", path=COMMIT, times=-1)
    with pytest.raises(StorageError, match="get_object"):
        log.actions(0)


@pytest.mark.parametrize("failure", [Failure.UNAVAILABLE, Failure.DROP, Failure.CUT])
def test_reading_gets_over_failures(table: StoredTable, faulty: FaultyS3, failure: Failure) -> None:
    log = table.fill(2)
    faulty.fail(failure, times=2)
    assert (log.newest_version(), log.damage()) == (1, None)


def test_whether_it_answers_is_known_within_seconds(
    table: StoredTable, faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = table.log.files
    files.check_answers()
    monkeypatch.setattr(s3_client, "HASTY_SECONDS", 0.3)
    s3_client._client.cache_clear()
    for failure, said in ((Failure.HANG, "Read timeout"), (Failure.UNAVAILABLE, "ServiceUnavailable")):
        faulty.fail(failure, times=-1)
        began = time.monotonic()
        with pytest.raises(StorageError, match=said):
            files.check_answers()
        assert time.monotonic() - began < s3_client.READ_SECONDS
        faulty.heal()
    files.check_answers()
    s3_client._client.cache_clear()


def test_a_bucket_that_is_gone_is_an_error_and_no_empty_table(s3_server: S3Server) -> None:
    table = StoredTable(Location(storage=s3_server.storage("no-such-bucket")) / "t")
    for ask in (
        table.log.files.check_answers,
        table.log.newest_version,
        lambda: table.log.seen(0),
        lambda: table.log.actions(0),
        lambda: table.log.add_commit(0, {}, []),
    ):
        with pytest.raises(StorageError, match=r"(?i)no-such-bucket.*bucket"):
            ask()


def test_a_server_that_does_not_listen_is_an_error(s3_server: S3Server) -> None:
    with faulty_s3(s3_server.endpoint) as proxy:
        endpoint = proxy.endpoint
    table = StoredTable(
        Location(storage=dataclasses.replace(s3_server.storage("bucket"), endpoint=endpoint)) / "t"
    )
    with pytest.raises(StorageError, match="Could not connect"):
        table.log.newest_version()


def test_a_server_that_ignores_conditions_gets_no_commit(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = s3_client.Bucket.ask

    def without_condition(self: s3_client.Bucket, operation: str, key: str, **arguments: object) -> object:
        arguments.pop("IfNoneMatch", None)
        return ask(self, operation, key, **arguments)

    monkeypatch.setattr(s3, "_honoured", set())
    monkeypatch.setattr(s3_client.Bucket, "ask", without_condition)
    with pytest.raises(StorageError, match="ignores If-None-Match"):
        table.log.add_commit(0, {"operation": "WRITE"}, [])
    assert table.names() == set()


def test_wrong_credentials_are_an_error_without_them(s3_server: S3Server) -> None:
    wrong = dataclasses.replace(s3_server.new_bucket(), secret_key="wrong-but-secret")
    with pytest.raises(StorageError, match=r"SignatureDoesNotMatch|Forbidden|403") as error:
        DeltaLog(Location(storage=wrong) / "t").newest_version()
    assert "wrong-but-secret" not in str(error.value)
    assert ACCESS_KEY not in str(error.value)


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine without any; the path is that of the credentials file."""
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3_client._client.cache_clear()
    yield file
    s3_client._client.cache_clear()


def test_credentials_come_from_the_environment(
    s3_server: S3Server, no_credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = dataclasses.replace(s3_server.new_bucket(), access_key="", secret_key="")
    log = DeltaLog(Location(storage=storage) / "t")
    with pytest.raises(StorageError, match="Unable to locate credentials"):
        log.newest_version()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    # Found without a new process.
    log.add_commit(0, {"operation": "WRITE"}, [])
    assert log.newest_version() == 0
    assert not no_credentials.exists()


def test_credentials_come_from_the_usual_file(s3_server: S3Server, no_credentials: Path) -> None:
    no_credentials.write_text(
        f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    storage = dataclasses.replace(s3_server.new_bucket(), access_key="", secret_key="")
    log = DeltaLog(Location(storage=storage) / "t")
    log.add_commit(0, {"operation": "WRITE"}, [])
    assert log.newest_version() == 0
