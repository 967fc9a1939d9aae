"""Reopening after SIGKILL if the last gigabyte is batches of 300 bytes, which take longest to check.

The log is filled without the network (10 GB, of which the last is 3.3 million tiny batches) by a process that
appends like the broker and is killed right after its last append; each further round appends more of them and
is killed again. Then the broker starts; the clock runs until a consumer (librdkafka) that is already waiting
has the last record. Target: 3 s. Apache Kafka is not compared: filling it this way takes a quarter of an
hour.

    python benchmarks/reopen_small_batches.py [--gigabytes 10] [--small 1] [--rounds 3] [--dir FOLDER]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from side_by_side import fill_log, options
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.waiting_clients import WaitingConsumer

from headrace.java import exec_with_parent

TOPIC = "reopen"
FIGURES = (
    Figure(name="SIGKILL: ready", unit="s", decimals=3),
    Figure(name="SIGKILL: last record read", unit="s", decimals=3),
)
CLAIMS = (Claim(figure="SIGKILL: last record read", of="embedded", bound="at most", target=3.0),)


def fill_and_kill(folder: Path, *, large: float, small: float) -> int:
    """Returns the offset after the last record."""
    command = [sys.executable, fill_log.__file__, str(folder), TOPIC, str(large), str(small)]
    tied_to_us = [sys.executable, "-I", "-S", exec_with_parent.__file__, str(os.getpid())]
    with subprocess.Popen([*tied_to_us, *command], stdout=subprocess.PIPE, text=True) as filling:
        assert filling.stdout is not None
        said = filling.stdout.readline().split()
        filling.kill()
    if not said:
        raise RuntimeError("cannot fill the log")
    return int(said[1])


def main() -> None:
    parser = options.parser(__doc__, rounds=3, warm_up=0)
    parser.set_defaults(only="embedded")
    parser.add_argument("--gigabytes", type=float, default=10, help="in the log (default 10)")
    parser.add_argument("--small", type=float, default=1, help="of these in tiny batches (default 1)")
    parser.add_argument(
        "--more", type=float, default=0.1, help="gigabytes in each further round (default 0.1)"
    )
    arguments = parser.parse_args()

    def measure(broker: Broker, number: int) -> dict[str, float]:
        first = number == 1 - arguments.warm_up
        end = fill_and_kill(
            broker.folder / "data",
            large=(arguments.gigabytes - arguments.small) * 1e9 if first else 0,
            small=(arguments.small if first else arguments.more) * 1e9,
        )
        consumer = WaitingConsumer(broker, TOPIC, end - 1)
        broker.start()
        received_at = consumer.received_at()
        broker.wait_ready()
        broker.stop()
        return {
            "SIGKILL: ready": broker.ready_at - broker.started_at,
            "SIGKILL: last record read": received_at - broker.started_at,
        }

    title = f"reopening {arguments.gigabytes:g} GB after SIGKILL, {arguments.small:g} GB in batches of 300 B"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
