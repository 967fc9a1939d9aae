"""The query process as the supervisor runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.assembly.announcements import latest
from headrace.core.settings import Settings, to_environment
from tests.gateway_process import eventually


@contextmanager
def run_query_process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """Ready; whatever happens, it is gone afterwards."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with (settings.data_dir / "query.out").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", "query"],
            env={**os.environ, **to_environment(settings)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(
            lambda: (
                (said := latest(settings, "query")) is not None
                and (said.pid, said.state) == (process.pid, "ready")
            ),
            "the query process is ready",
            unless=lambda: process.poll() is not None,
        )
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
