"""Finding Java, with programs in its place that say what the Java in question would say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.java.runtime import OLDEST_MAJOR, find_java


def make_java(home: Path, specification: str) -> Path:
    """A `java` in `home/bin` that calls itself that version."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    lines = f"Property settings:\n    java.home = {home}\n    java.specification.version = {specification}\n"
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{lines}END\n", encoding="utf-8")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which `cat` and `sh` are on the PATH, but no Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cat", "sh"):
        (tools / tool).symlink_to(Path("/bin") / tool)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_the_real_java_says_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = find_java()
    assert found.major >= OLDEST_MAJOR
    assert (found.home / "bin" / "java").exists()


def test_the_argument_comes_before_java_home_and_that_before_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, version in (("argument", "21"), ("home", "18"), ("path", "17")):
        make_java(tmp_path / name, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:{tmp_path / 'tools'}")
    assert find_java(str(tmp_path / "argument")).major == 21
    assert find_java().major == 18
    monkeypatch.delenv("JAVA_HOME")
    found = find_java()
    assert (found.major, found.home) == (17, tmp_path / "path")


def test_a_stale_java_home_does_not_hide_a_good_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "old", "1.8")
    make_java(tmp_path / "path", "17")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:{tmp_path / 'tools'}")
    for stale in ("old", "gone"):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / stale))
        assert find_java().major == 17


def test_no_java_gives_the_line_that_installs_it() -> None:
    with pytest.raises(HeadraceError, match="Java was not found") as caught:
        find_java()
    assert caught.value.code == "java_missing"
    assert "openjdk-17" in caught.value.remedy


def test_an_old_java_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable = make_java(tmp_path / "old", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(HeadraceError, match=f"{executable} is Java 8") as caught:
        find_java()
    assert caught.value.code == "java_too_old"
    assert "openjdk-17" in caught.value.remedy


def test_a_wrong_setting_is_not_replaced_by_another_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "good", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "good"))
    with pytest.raises(HeadraceError, match="java_home") as caught:
        find_java(str(tmp_path / "nowhere"))
    assert caught.value.code == "java_missing"


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no Java installed\n", ""])
def test_a_program_that_only_calls_itself_java_is_none(tmp_path: Path, script: str) -> None:
    executable = make_java(tmp_path / "fake", "17")
    executable.write_text(script, encoding="utf-8")
    with pytest.raises(HeadraceError, match="does not run") as caught:
        find_java(str(tmp_path / "fake"))
    assert caught.value.code == "java_missing"
