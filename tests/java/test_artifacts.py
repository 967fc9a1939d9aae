"""The artifact cache: once for real, and against a repository on the loopback for all that can go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.java.artifacts import Artifacts
from headrace.java.pin import pin
from headrace.java.pinned import PinnedArtifact, PinnedList, read_pinned_list
from tests.java.maven_repository import MavenRepository
from tests.ports import free_port

JAR = bytes(range(256)) * 400


@pytest.fixture
def repository(machine: Path) -> Iterator[MavenRepository]:
    """The only repository that this machine knows."""
    server = MavenRepository()
    point_to(machine, server.address)
    yield server
    server.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty local Maven repository; gives the folder of its configuration."""
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "jgo.conf"))
    return tmp_path


def point_to(machine: Path, address: str) -> None:
    (machine / "jgo.conf").write_text(f"[repositories]\ncentral = {address}\n", encoding="utf-8")


def code_of(artifacts: Artifacts, group: str) -> str:
    with pytest.raises(HeadraceError) as caught:
        artifacts.jars(group)
    assert caught.value.remedy
    return caught.value.code


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.name != ".lock" and not path.is_dir()}


def test_an_empty_cache_is_filled_from_the_real_repositories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    small = [artifact for artifact in read_pinned_list()["kafka"] if artifact.size < 50_000][:5]
    assert len(small) == 5
    artifacts = Artifacts(tmp_path / "cache", {"small": tuple(small)})
    assert artifacts.missing("small") == 5
    jars = artifacts.jars("small")
    assert [jar.stat().st_size for jar in jars] == [artifact.size for artifact in small]
    assert artifacts.classpath("small") == ":".join(map(str, jars))
    assert artifacts.missing("small") == 0
    assert not (tmp_path / "m2").exists(), "the local Maven repository is only read"


def test_a_full_cache_needs_no_network(machine: Path, repository: MavenRepository) -> None:
    artifacts = Artifacts(
        machine / "cache", {"group": tuple(repository.add(f"a{n}", JAR) for n in range(20))}
    )
    first = artifacts.jars("group")
    assert repository.served.total() == 20
    point_to(machine, f"http://127.0.0.1:{free_port()}")
    assert artifacts.jars("group") == first
    assert files_in(machine / "cache") == {jar.name for jar in first}


@pytest.mark.parametrize("damaged", [b"", JAR[:-1], b"x" + JAR[1:], JAR + b"x"])
def test_a_damaged_file_is_fetched_again(machine: Path, repository: MavenRepository, damaged: bytes) -> None:
    artifacts = Artifacts(machine / "cache", {"group": (repository.add("a", JAR), repository.add("b", JAR))})
    jar, other = artifacts.jars("group")
    jar.write_bytes(damaged)
    assert artifacts.jars("group") == [jar, other]
    assert jar.read_bytes() == JAR
    assert repository.served == {"a-1.0.jar": 2, "b-1.0.jar": 1}


def test_a_copy_of_maven_is_used_if_it_is_whole_and_never_changed(
    machine: Path, repository: MavenRepository
) -> None:
    copies = {}
    for name, content in (("whole", JAR), ("damaged", b"x" + JAR[1:])):
        copies[name] = machine / "m2" / "org" / "example" / name / "1.0" / f"{name}-1.0.jar"
        copies[name].parent.mkdir(parents=True)
        copies[name].write_bytes(content)
    group = (repository.add("whole", JAR), repository.add("damaged", JAR))
    assert [jar.read_bytes() for jar in Artifacts(machine / "cache", {"group": group}).jars("group")] == [
        JAR,
        JAR,
    ]
    assert repository.served == {"damaged-1.0.jar": 1}
    assert copies["damaged"].read_bytes() == b"x" + JAR[1:]


def test_a_download_with_the_wrong_hash_is_refused(machine: Path, repository: MavenRepository) -> None:
    pinned = repository.add("a", JAR)
    repository.add("a", b"x" + JAR[1:])
    assert code_of(Artifacts(machine / "cache", {"group": (pinned,)}), "group") == "artifact_damaged"
    assert files_in(machine / "cache") == set()


def test_an_unreachable_repository_is_said_with_the_remedy(
    machine: Path, repository: MavenRepository
) -> None:
    pinned = tuple(repository.add(f"a{n}", JAR) for n in range(20))
    point_to(machine, f"http://127.0.0.1:{free_port()}")
    artifacts = Artifacts(machine / "cache", {"group": pinned})
    with pytest.raises(HeadraceError, match=r"Cannot download .* from `central`: .*refused") as caught:
        artifacts.jars("group")
    assert caught.value.code == "artifacts_unreachable"
    assert "network" in caught.value.remedy


def test_an_artifact_that_no_repository_has_is_named(machine: Path, repository: MavenRepository) -> None:
    known = repository.add("a", JAR)
    unknown = PinnedArtifact(maven_group="org.example", artifact="none", version="1.0", size=1, sha256="0")
    artifacts = Artifacts(machine / "cache", {"group": (known, unknown)})
    with pytest.raises(HeadraceError, match=r"org\.example:none:1\.0") as caught:
        artifacts.jars("group")
    assert caught.value.code == "artifacts_unreachable"


def test_a_cache_that_cannot_be_written_is_said(machine: Path, repository: MavenRepository) -> None:
    (machine / "cache").write_text("a file where the folder should be", encoding="utf-8")
    artifacts = Artifacts(machine / "cache", {"group": (repository.add("a", JAR),)})
    with pytest.raises(HeadraceError, match="Cannot use the artifact cache") as caught:
        artifacts.jars("group")
    assert "cache_dir" in caught.value.remedy


def test_an_unknown_group_is_an_error_that_names_the_groups(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="`kafak`") as caught:
        Artifacts(tmp_path).jars("kafak")
    assert caught.value.code == "artifact_unknown_group"
    assert caught.value.remedy == "The groups are `spark`, `s3`, `kafka`."


FETCH_PROGRAM = """
import json, sys
from pathlib import Path
from headrace.java.artifacts import Artifacts
from headrace.java.pinned import PinnedArtifact
pins = tuple(PinnedArtifact(**pin) for pin in json.loads(sys.argv[2]))
Artifacts(Path(sys.argv[1]), {"group": pins}).jars("group", progress=True)
"""


def start_fetching(cache: Path, pins: list[PinnedArtifact]) -> subprocess.Popen[str]:
    arguments = [str(cache), json.dumps([asdict(artifact) for artifact in pins])]
    command = [sys.executable, "-c", FETCH_PROGRAM, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)


def test_a_kill_in_the_middle_leaves_nothing_half(machine: Path, repository: MavenRepository) -> None:
    pins = [repository.add("a", JAR), repository.add("b", JAR)]
    repository.stalls = True
    process = start_fetching(machine / "cache", pins)
    try:
        assert repository.half_sent.wait(60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not list((machine / "cache").rglob("group/*.jar"))
    repository.stalls = False
    jars = Artifacts(machine / "cache", {"group": tuple(pins)}).jars("group")
    assert [jar.read_bytes() for jar in jars] == [JAR, JAR]
    assert files_in(machine / "cache") == {"a-1.0.jar", "b-1.0.jar"}, "the half files are cleared away"


def test_of_two_processes_at_once_one_fetches(machine: Path, repository: MavenRepository) -> None:
    pins = [repository.add(f"a{n}", JAR) for n in range(30)]
    processes = [start_fetching(machine / "cache", pins) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert set(repository.served.values()) == {1}
    assert sorted(said) == ["", "Downloading 30 Java artifacts (group, 3 MB)\n"], (
        "one plain line without a terminal"
    )


def test_nothing_is_printed_unasked(
    machine: Path, repository: MavenRepository, capfd: pytest.CaptureFixture[str]
) -> None:
    Artifacts(machine / "cache", {"group": (repository.add("a", JAR),)}).jars("group")
    assert capfd.readouterr() == ("", "")


def test_pinning_fills_in_sizes_and_hashes(repository: MavenRepository) -> None:
    pinned = repository.add("a", JAR)
    text = '# Why.\n\n[group]\n"org.example:a:1.0" = { size = 0, sha256 = "" }\n'
    expected = (
        f'# Why.\n\n[group]\n"org.example:a:1.0" = {{ size = {pinned.size}, sha256 = "{pinned.sha256}" }}\n'
    )
    assert pin(text) == expected


def test_the_shipped_list_is_sound() -> None:
    pinned: PinnedList = read_pinned_list()
    assert set(pinned) == {"spark", "s3", "kafka"}
    for group in pinned.values():
        names = [artifact.file_name for artifact in group]
        assert len(names) == len(set(names))
        assert all(len(bytes.fromhex(artifact.sha256)) == 32 and artifact.size > 0 for artifact in group)


def test_the_spark_connectors_do_not_repeat_what_pyspark_brings() -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    brought = {path.name for path in (Path(spec.origin).parent / "jars").glob("*.jar")}
    pinned = read_pinned_list()
    fetched = {artifact.file_name for group in ("spark", "s3") for artifact in pinned[group]}
    assert {"antlr4-runtime-4.13.1.jar", "scala-parallel-collections_2.13-1.2.0.jar"} <= brought
    assert not fetched & brought
