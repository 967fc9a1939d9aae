"""`headrace up` on its default ports, and the statements of `commands.md`, for all acceptance tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.running_platform import wait_for

COMMANDS = (Path(__file__).parent / "commands.md").read_text(encoding="utf-8")
SHELL = re.search(r"`(ksql [^`]+)`", COMMANDS)
STATEMENTS = re.findall(r"`(CREATE STREAM [^`]+;)`", COMMANDS)
PROGRAMS = Path(sys.executable).parent


@contextmanager
def headrace_up(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """With nothing but a data folder of its own, and these variables."""
    said = folder / "said.log"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAMS / "headrace", "up", "--data-dir", folder / "data"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
    try:
        wait_for(
            lambda: "\nready:" in said.read_text() or process.poll() is not None,
            "the platform is up",
            explain=said.read_text,
        )
        assert process.poll() is None, said.read_text()
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)
