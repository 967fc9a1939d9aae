"""Which files a connector can reach: whatever path it is given, only those in allowed folders."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.connect import allowed_folders
from headrace.connect.allowed_folders import AllowedFolders
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, load

SECRET = b"not for connectors"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data folder with something of the platform's own, next to a file that is nobody's business."""
    folder = tmp_path / "data"
    (folder / "broker").mkdir(parents=True)
    (folder / "broker" / "segment").write_bytes(SECRET)
    (tmp_path / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def allowed(data_dir: Path) -> AllowedFolders:
    folders = AllowedFolders.of(Settings(data_dir=data_dir))
    (data_dir / "files").mkdir()
    return folders


def refused(allowed: AllowedFolders, path: str) -> str:
    """The message of all three ways to use the path."""
    messages = set()
    for use in (allowed.resolved, allowed.open_reading, allowed.open_appending):
        with pytest.raises(HeadraceError) as raised:
            use(path)
        assert raised.value.code == "path_not_allowed"
        assert "file_connector_folders" in raised.value.remedy
        messages.add(raised.value.message)
    (message,) = messages
    return message


def refused_to_open(allowed: AllowedFolders, path: str) -> None:
    for use in (allowed.open_reading, allowed.open_appending):
        with pytest.raises(HeadraceError) as raised:
            use(path)
        assert raised.value.code == "path_not_allowed"


def test_a_file_in_the_data_folder_s_files_is_written_and_read_by_a_relative_or_a_full_path(
    data_dir: Path,
) -> None:
    allowed = AllowedFolders.of(Settings(data_dir=data_dir))
    with allowed.open_appending("out.txt") as file:
        file.write(b"one\n")
    with allowed.open_appending(str(data_dir / "files" / "out.txt")) as file:
        file.write(b"two\n")
    with allowed.open_reading("./sub/../out.txt") as file:
        assert file.read() == b"one\ntwo\n"
    assert allowed.resolved("not/yet") == data_dir / "files" / "not" / "yet"


def test_a_missing_file_is_not_a_refusal_and_no_folder_is_created(allowed: AllowedFolders) -> None:
    with pytest.raises(FileNotFoundError):
        allowed.open_reading("later.txt")
    with pytest.raises(FileNotFoundError):
        allowed.open_appending("no-such-folder/out.txt")


@pytest.mark.parametrize(
    "path",
    [
        "../broker/segment",
        "../../secret",
        "sub/../../broker/segment",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a\0b",
        "\ud800",
        "../files-of-somebody-else/x",
    ],
)
def test_what_is_not_below_an_allowed_folder_is_refused(allowed: AllowedFolders, path: str) -> None:
    refused(allowed, path)


def test_the_message_names_the_path_where_it_leads_and_the_folders(
    allowed: AllowedFolders, data_dir: Path
) -> None:
    message = refused(allowed, "../../secret")
    assert "'../../secret'" in message
    assert str(data_dir.parent / "secret") in message
    assert str(data_dir / "files") in message


def test_links_are_followed_within_allowed_folders_and_refused_if_they_lead_out(
    allowed: AllowedFolders, data_dir: Path
) -> None:
    files = data_dir / "files"
    (files / "real").mkdir()
    (files / "real" / "x").write_bytes(b"fine")
    (files / "inner").symlink_to("real")
    (files / "file").symlink_to("real/x")
    (files / "out").symlink_to(data_dir.parent)
    (files / "out-file").symlink_to(data_dir.parent / "secret")
    (files / "dangling").symlink_to(data_dir.parent / "not-yet")
    for path in ("inner/x", "file"):
        with allowed.open_reading(path) as file:
            assert file.read() == b"fine"
    for path in ("out/secret", "out-file", "dangling", "inner/../../broker/segment"):
        refused(allowed, path)
    assert not (data_dir.parent / "not-yet").exists()


def test_links_in_a_circle_are_refused(allowed: AllowedFolders, data_dir: Path) -> None:
    (data_dir / "files" / "a").symlink_to("b")
    (data_dir / "files" / "b").symlink_to("a")
    refused_to_open(allowed, "a")
    refused_to_open(allowed, "a/x")


def test_only_regular_files_are_opened_and_nothing_blocks(allowed: AllowedFolders, data_dir: Path) -> None:
    files = data_dir / "files"
    (files / "folder").mkdir()
    (files / "file").write_bytes(b"")
    os.mkfifo(files / "pipe")
    for path in ("folder", "folder/", "pipe", "file/x"):
        refused_to_open(allowed, path)


@pytest.mark.parametrize("path", ["file", "folder/secret"])
@pytest.mark.parametrize("use", ["open_reading", "open_appending"])
def test_a_link_that_appears_after_the_check_is_not_followed(
    allowed: AllowedFolders, data_dir: Path, monkeypatch: pytest.MonkeyPatch, path: str, use: str
) -> None:
    link = path.partition("/")[0]
    outside = data_dir.parent / "secret" if link == "file" else data_dir.parent
    walk = allowed_folders._folder_of

    def swap_then_walk(root: Path, *rest: Any) -> Any:
        (root / link).symlink_to(outside)
        return walk(root, *rest)

    monkeypatch.setattr(allowed_folders, "_folder_of", swap_then_walk)
    with pytest.raises(HeadraceError):
        getattr(allowed, use)(path)
    assert (data_dir.parent / "secret").read_bytes() == SECRET


def test_a_folder_swapped_for_a_link_again_and_again_never_leads_out(
    allowed: AllowedFolders, data_dir: Path
) -> None:
    files = data_dir / "files"
    (files / "here").mkdir()
    (files / "here" / "secret").write_bytes(b"ours")
    (files / "link").symlink_to(data_dir.parent)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (files / "here").rename(files / "aside")
            (files / "link").rename(files / "here")
            (files / "here").rename(files / "link")
            (files / "aside").rename(files / "here")

    swapping = threading.Thread(target=swap)
    swapping.start()
    read = []
    try:
        while len(read) < 300:
            try:
                with allowed.open_reading("here/secret") as file:
                    read.append(file.read())
            except (HeadraceError, FileNotFoundError):
                continue
    finally:
        done.set()
        swapping.join()
    assert set(read) == {b"ours"}


def test_an_allowed_folder_around_the_data_folder_does_not_open_the_platform_s_own_data(
    tmp_path: Path, data_dir: Path
) -> None:
    around = AllowedFolders([tmp_path, data_dir / "files"], data_dir=data_dir)
    with around.open_appending("plain.txt") as file:
        file.write(b"x")
    with around.open_appending("data/files/inside.txt") as file:
        file.write(b"x")
    refused(around, "data/broker/segment")
    refused(around, "data/new")
    refused(AllowedFolders([data_dir], data_dir=data_dir), "broker/segment")


def test_the_data_folder_is_recognised_under_another_name(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a file system that ignores case, or through a bind mount: no link, and no common name.
    around = AllowedFolders([tmp_path], data_dir=data_dir)
    renamed = tmp_path / "DATA"
    data_dir.rename(renamed)
    real = allowed_folders._identity

    def known(folder: Path | int) -> tuple[int, int] | None:
        return real(renamed if folder == data_dir else folder)

    monkeypatch.setattr(allowed_folders, "_identity", known)
    refused_to_open(around, "DATA/broker/segment")
    refused_to_open(AllowedFolders([renamed], data_dir=data_dir), "broker/segment")


def test_a_folder_outside_the_data_folder_is_not_created(tmp_path: Path, data_dir: Path) -> None:
    allowed = AllowedFolders([tmp_path / "not-mounted"], data_dir=data_dir)
    with pytest.raises(FileNotFoundError):
        allowed.open_appending("out.txt")
    assert not (tmp_path / "not-mounted").exists()


def test_the_setting_lists_folders_relative_to_the_data_folder_or_absolute(tmp_path: Path) -> None:
    flags = {"data_dir": "d", "file_connector_folders": f"imports, {tmp_path / 'elsewhere'}"}
    allowed = AllowedFolders.of(load(flags, environ={}, folder=tmp_path))
    assert allowed.resolved("x") == tmp_path / "d" / "imports" / "x"
    assert allowed.resolved(str(tmp_path / "elsewhere" / "x")) == tmp_path / "elsewhere" / "x"
    refused(allowed, str(tmp_path / "d" / "files" / "x"))


@pytest.mark.parametrize("value", ["", ",", "files,", " "])
def test_a_setting_that_names_no_folder_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(HeadraceError, match="folders separated by commas"):
        load({"file_connector_folders": value}, environ={}, folder=tmp_path)


def _open_below(folder: Path) -> list[str]:
    """What this process has open there. Others of its files come and go: clients of other tests have them."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def test_no_file_stays_open_after_a_refusal(allowed: AllowedFolders, data_dir: Path) -> None:
    (data_dir / "files" / "a" / "b").mkdir(parents=True)
    for _ in range(20):
        refused_to_open(allowed, "a/b")
        with pytest.raises(FileNotFoundError):
            allowed.open_reading("a/b/c")
    assert _open_below(data_dir) == []


def test_a_file_with_another_name_elsewhere_is_refused(data_dir: Path, allowed: AllowedFolders) -> None:
    os.link(data_dir / "broker" / "segment", data_dir / "files" / "innocent.txt")
    refused_to_open(allowed, "innocent.txt")
    assert (data_dir / "broker" / "segment").read_bytes() == SECRET
