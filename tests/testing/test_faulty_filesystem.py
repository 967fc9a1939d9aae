"""The disk that fails: that it forgets exactly what it should."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.log.filesystem import FileSystem, OperatingSystem, read_file, write_atomically, write_fully
from headrace.testing.faulty_filesystem import FaultyFileSystem


def write(
    disk: FaultyFileSystem, path: Path, content: bytes, *, sync: bool = False, position: int = 0
) -> None:
    descriptor = disk.open(str(path), write=True, create=True)
    write_fully(disk, descriptor, content, position)
    if sync:
        disk.fdatasync(descriptor)
    disk.close(descriptor)


def test_both_are_file_systems() -> None:
    assert isinstance(OperatingSystem(), FileSystem)
    assert isinstance(FaultyFileSystem(), FileSystem)


def test_contents_that_were_not_synced_are_lost(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    path = tmp_path / "file"
    write(disk, path, b"synced", sync=True)
    write(disk, path, b" and more", position=6)
    write(disk, path, b"S", position=0)
    disk.sync_directory(str(tmp_path))
    assert path.read_bytes() == b"Synced and more"
    disk.power_loss()
    assert path.read_bytes() == b"synced"


def test_a_truncation_that_was_not_synced_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    disk = FaultyFileSystem()
    descriptor = disk.open(str(path), write=True)
    disk.truncate(descriptor, 3)
    assert path.read_bytes() == b"con"
    disk.power_loss()
    assert path.read_bytes() == b"content"
    disk.close(descriptor)


def test_names_that_were_not_synced_are_lost(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    write(disk, tmp_path / "kept", b"1", sync=True)
    write_atomically(disk, str(tmp_path / "replaced"), b"old", sync=True)
    disk.sync_directory(str(tmp_path))
    write(disk, tmp_path / "new", b"2", sync=True)
    write_atomically(disk, str(tmp_path / "replaced"), b"new", sync=True)
    disk.unlink(str(tmp_path / "kept"))
    disk.mkdirs(str(tmp_path / "folder"))
    assert {path.name for path in tmp_path.iterdir()} == {"new", "replaced", "folder"}
    disk.power_loss()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"kept": b"1", "replaced": b"old"}


def test_everything_may_survive(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    write(disk, tmp_path / "new", b"2")
    disk.power_loss("all")
    assert (tmp_path / "new").read_bytes() == b"2"


def test_some_writes_survive_some_are_torn_some_are_lost(tmp_path: Path) -> None:
    left = set()
    for seed in range(60):
        disk = FaultyFileSystem(seed=seed)
        path = tmp_path / str(seed)
        write(disk, path, b"", sync=True)
        disk.sync_directory(str(tmp_path))
        write(disk, path, b"aa")
        write(disk, path, b"bb", position=2)
        disk.power_loss("some")
        left.add(path.read_bytes())
    assert {b"", b"aabb", b"aa", b"\0\0bb", b"a", b"aab", b"\0\0b"} <= left


def test_after_a_power_loss_nothing_works(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    descriptor = disk.open(str(tmp_path / "file"), write=True, create=True)
    disk.power_loss()
    for attempt in (
        lambda: disk.pwrite(descriptor, b"x", 0),
        lambda: disk.pread(descriptor, 1, 0),
        lambda: disk.fdatasync(descriptor),
        lambda: disk.open(str(tmp_path / "other"), create=True),
    ):
        with pytest.raises(OSError, match="power"):
            attempt()
    disk.close(descriptor)


def test_a_kill_loses_nothing_but_the_lock(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    write(disk, tmp_path / "file", b"content")
    assert disk.lock(str(tmp_path / "lock")) is not None
    assert FaultyFileSystem().lock(str(tmp_path / "lock")) is None
    following = disk.kill()
    assert following.boot_id() == disk.boot_id() != FaultyFileSystem().boot_id()
    assert following.lock(str(tmp_path / "lock")) is not None
    assert read_file(following, str(tmp_path / "file")) == b"content"
    following.power_loss()
    assert not (tmp_path / "file").exists()


def test_a_sync_that_fails_loses_what_it_was_for(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    path = tmp_path / "file"
    write(disk, path, b"", sync=True)
    disk.sync_directory(str(tmp_path))
    descriptor = disk.open(str(path), write=True)
    disk.pwrite(descriptor, b"first", 0)
    disk.fail_sync()
    with pytest.raises(OSError, match="error"):
        disk.fdatasync(descriptor)
    disk.pwrite(descriptor, b"second", 5)
    disk.fdatasync(descriptor)
    assert path.read_bytes() == b"firstsecond"
    disk.power_loss()
    assert path.read_bytes() == b"\0\0\0\0\0second"
    disk.close(descriptor)


def test_the_nth_write_fails(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    descriptor = disk.open(str(tmp_path / "file"), write=True, create=True)
    disk.fail_write(2, keep=3, code=errno.EIO)
    disk.pwrite(descriptor, b"first", 0)
    with pytest.raises(OSError, match="error"):
        disk.pwrite(descriptor, b"second", 5)
    assert (tmp_path / "file").read_bytes() == b"firstsec"
    assert disk.pwrite(descriptor, b"second", 5) == 6
    disk.close(descriptor)


def test_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    descriptor = disk.open(str(tmp_path / "file"), write=True, create=True)
    disk.room = 4
    assert disk.pwrite(descriptor, b"abcdef", 0) == 4
    with pytest.raises(OSError, match="space") as raised:
        disk.pwrite(descriptor, b"ef", 4)
    assert raised.value.errno == errno.ENOSPC
    assert disk.pwrite(descriptor, b"AB", 0) == 2
    with pytest.raises(OSError, match="space"):
        disk.open(str(tmp_path / "other"), write=True, create=True)
    disk.room = None
    assert disk.pwrite(descriptor, b"ef", 4) == 2
    assert (tmp_path / "file").read_bytes() == b"ABcdef"
    disk.close(descriptor)
