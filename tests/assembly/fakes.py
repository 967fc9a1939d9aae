"""Small processes that behave well or badly, run by the real supervisor through the real `run_process`."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import headrace
from headrace.assembly.process_specs import ProcessSpec
from headrace.assembly.restarts import RestartPolicy
from headrace.core.settings import Settings
from tests.ports import free_ports

# No test waits for a pause to pass: restarts come at once, and are patient enough for a busy machine.
QUICK = RestartPolicy(first_delay=0.0, longest_delay=0.0)

GOOD = """
import signal, threading
from headrace.assembly.announcements import announce

def run(settings):
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    announce(settings, {name!r}, state="ready", detail="at your service")
    stopping.wait()
    with (settings.data_dir / "ended").open("a") as file:
        file.write({name!r} + " ")
    return 0
"""

# Its child is in a session of its own, as a server may start it, and takes no notice of SIGTERM.
WITH_GRANDCHILD = """
import subprocess, sys
""" + GOOD.replace(
    "    announce(",
    """
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
         "print('deaf', flush=True); time.sleep(600)"],
        start_new_session={session}, stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    with (settings.data_dir / "grandchildren").open("a") as file:
        file.write(f"{{child.pid}}\\n")
    announce(""",
)

DEAF = """
import signal, time
from headrace.assembly.announcements import announce

def run(settings):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    announce(settings, {name!r}, state="ready")
    while True:
        time.sleep(600)
"""

# Gives signs of life, as the real ones do.
LIVELY = GOOD.replace("import signal, threading", "import signal, threading, time").replace(
    "    stopping.wait()",
    """
    from headrace.assembly.signs_of_life import SignOfLife
    sign = SignOfLife(settings, {name!r})
    while not stopping.wait(0.01):
        sign.give()
""",
)

# Two workers, forked, which give signs of life; their parent gives none.
WITH_WORKERS = """
import os, signal, time
from headrace.assembly.announcements import announce
from headrace.assembly.signs_of_life import SignOfLife

def run(settings):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(2):
        if os.fork() == 0:
            sign = SignOfLife(settings, {name!r})
            while True:
                sign.give()
                time.sleep(0.01)
    announce(settings, {name!r}, state="ready")
    while True:
        time.sleep(600)
"""

CRASHING = """
def run(settings):
    raise ValueError("nothing good")
"""

HOPELESS = """
from headrace.core.errors import HeadraceError

def run(settings):
    raise HeadraceError("java_missing", "There is no Java.", remedy="Install one.")
"""

NEVER_READY = """
import time

def run(settings):
    while True:
        time.sleep(600)
"""

FAILED_BUT_ALIVE = """
import time
from headrace.assembly.announcements import announce

def run(settings):
    announce(settings, {name!r}, state="failed", detail="broken inside")
    while True:
        time.sleep(600)
"""


class FakeProcesses:
    """Writes modules for `run_process` to import, and the specs that name them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        source = Path(headrace.__file__).parent.parent
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(source)]))

    def spec(
        self,
        name: str,
        source: str = GOOD,
        *,
        needs: tuple[str, ...] = (),
        drains_after: tuple[str, ...] = (),
        ports: tuple[str, ...] = (),
        start_seconds: float = 60.0,
        grace_seconds: float = 60.0,
        own_session: bool = True,
        essential: bool = False,
        silent_seconds: float = 0.0,
    ) -> ProcessSpec:
        content = textwrap.dedent(source).format(name=name, session=own_session)
        (self._folder / f"fake_{name}.py").write_text(content, encoding="utf-8")
        return ProcessSpec(
            name=name,
            module=f"fake_{name}",
            needs=needs,
            drains_after=drains_after,
            ports=ports,
            start_seconds=start_seconds,
            grace_seconds=grace_seconds,
            essential=essential,
            silent_seconds=silent_seconds,
        )


def settings_in(folder: Path) -> Settings:
    """Settings with a data folder and ports of their own."""
    kafka, ingest, registry, statements, console, query, postgres, connect, connect_second = free_ports(9)
    return Settings(
        data_dir=folder / "data",
        cache_dir=folder / "cache",
        kafka_port=kafka,
        ingest_port=ingest,
        registry_port=registry,
        statements_port=statements,
        console_port=console,
        query_port=query,
        postgres_port=postgres,
        connect_port=connect,
        connect_second_port=connect_second,
    )


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def grandchildren(settings: Settings) -> list[int]:
    return [int(line) for line in (settings.data_dir / "grandchildren").read_text().split()]
