"""Where the embedded broker spends its time: one extra round under py-spy, which is not counted.

Needs the program `py-spy` (`pip install py-spy`) on the PATH or next to the Python that runs this. The share
of `epoll_pwait` is roughly the time spent waiting for clients: if it is large, they are the limit.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from side_by_side.engines import Broker, EmbeddedBroker
from side_by_side.processes import cpu_time

SAMPLES_A_SECOND: Final = 200
SHOWN: Final = 25
LINE_NUMBER: Final = re.compile(r":\d+\)$")


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="profile the embedded broker in an extra round (py-spy)"
    )


def profile(
    arguments: argparse.Namespace, engines: Sequence[Broker], work: Callable[[Broker], object]
) -> None:
    """If requested, run the work on the embedded broker, print its hottest functions and save the stacks."""
    if arguments.profile is None:
        return
    broker = next((engine for engine in engines if isinstance(engine, EmbeddedBroker)), None)
    if broker is None:
        raise SystemExit("--profile needs the embedded broker in the run")
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise SystemExit("--profile needs py-spy: pip install py-spy")
    with tempfile.TemporaryFile() as said:
        recorder = subprocess.Popen(
            [
                *(program, "record", "--pid", str(broker.pid), "--native"),
                *("--rate", str(SAMPLES_A_SECOND), "--format", "raw", "--output", str(arguments.profile)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        before = cpu_time(broker.pid)
        try:
            work(broker)
        finally:
            used = cpu_time(broker.pid) - before
            recorder.send_signal(signal.SIGINT)
            recorder.wait(120)
        if not arguments.profile.exists():
            said.seek(0)
            raise SystemExit("py-spy wrote no profile:\n" + said.read().decode(errors="replace"))
    print(
        f"\nprofile of the embedded broker: {used.user:.2f} s in its code, {used.system:.2f} s in the kernel"
    )
    print(hottest(arguments.profile.read_text(encoding="utf-8")))
    print(f"stacks: {arguments.profile} (flame graph: https://www.speedscope.app, or flamegraph.pl)")


def hottest(stacks: str) -> str:
    """The functions with the most samples of their own, and those with the most including calls."""
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        # Without line numbers, since this is about functions; only the stacks in the file have lines.
        frames = [LINE_NUMBER.sub(")", frame) for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            below[frame] += int(count)
    total = max(1, own.total())
    lines = [f"{'own':>7}  {'with calls':>10}"]
    lines += [
        f"{count / total:7.1%}  {below[frame] / total:10.1%}  {frame}"
        for frame, count in own.most_common(SHOWN)
    ]
    return "\n".join(lines)
