"""Finds Java on this machine.

Invariants: a `JavaRuntime` has been run once and reported its own version; its major version is at least
`OLDEST_MAJOR`. A Java named in the settings is used as given, and it is an error if it does not work; between
JAVA_HOME and the PATH the first that is new enough wins, so that a stale JAVA_HOME does not get in the way.
Never installs Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError

OLDEST_MAJOR: Final = 17
ANSWER_TIMEOUT: Final = 60.0

# The program that identifies the package manager, and the command that installs Java with it; the first one
# found is shown.
INSTALL_LINES: Final[tuple[tuple[str, str], ...]] = (
    ("apt-get", "apt-get install openjdk-17-jre-headless"),
    ("dnf", "dnf install java-17-openjdk-headless"),
    ("zypper", "zypper install java-17-openjdk-headless"),
    ("apk", "apk add openjdk17-jre-headless"),
    ("pacman", "pacman -S jre17-openjdk-headless"),
    ("brew", "brew install openjdk@17"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java that works and is new enough."""

    executable: Path
    home: Path
    major: int


def find_java(java_home: str = "") -> JavaRuntime:
    """The Java named by `java_home`, else by JAVA_HOME, else on the PATH; java_missing or java_too_old."""
    if java_home:
        candidates = [(Path(java_home).expanduser() / "bin" / "java", f"the setting java_home = {java_home}")]
    else:
        candidates = _candidates()
    found: list[JavaRuntime] = []
    failures: list[str] = []
    for executable, origin in candidates:
        try:
            runtime = _ask(executable)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            failures.append(f"{executable} ({origin}) does not run: {error}.")
            continue
        if runtime.major >= OLDEST_MAJOR:
            return runtime
        found.append(runtime)
    if found:
        raise HeadraceError(
            "java_too_old",
            f"{found[0].executable} is Java {found[0].major}; Java {OLDEST_MAJOR} or newer is required.",
            remedy=_remedy(),
        )
    reasons = " ".join(failures) or "JAVA_HOME is not set and there is no `java` on the PATH."
    raise HeadraceError("java_missing", f"Java was not found. {reasons}", remedy=_remedy())


def _candidates() -> list[tuple[Path, str]]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if on_path := shutil.which("java"):
        candidates.append((Path(on_path), "PATH"))
    return candidates


def _ask(executable: Path) -> JavaRuntime:
    """Let it report its own home and version: layouts differ between vendors."""
    answer = subprocess.run(
        [str(executable), "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=ANSWER_TIMEOUT,
        check=True,
    )
    output = answer.stderr + answer.stdout
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    if version is None or home is None:
        raise ValueError("it does not report its version")
    return JavaRuntime(executable=executable, home=Path(home[1]), major=int(version[1]))


def _remedy() -> str:
    line = next((line for program, line in INSTALL_LINES if shutil.which(program)), INSTALL_LINES[0][1])
    return f"Install it with `{line}`, or set java_home to a Java {OLDEST_MAJOR} or newer."
