"""`python -m tests.load --minutes 10`: runs the load, prints the report.

On anomalies, and if a client gave up without a reason, it exits with 1 and keeps the folder.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from headrace.testing.history import check, read_history
from tests.load.mixed_load import LoadPlan, MixedLoad, unexpected_ends


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--rate", type=float, default=60.0, help="records a second of each producer")
    parser.add_argument("--fsync", choices=("os", "interval", "always"), default="os")
    parser.add_argument("--keep", action="store_true", help="keep the folder in any case")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-load-"))
    print(f"{given.minutes:g} minutes with the seed {given.seed}, in {folder}", flush=True)
    load = MixedLoad(
        folder, LoadPlan(seconds=60 * given.minutes, seed=given.seed, rate=given.rate, fsync=given.fsync)
    )
    load.run()
    print(
        f"The broker was killed {load.broker_kills} times, clients {load.client_kills} times; "
        f"{load.client_freezes} clients were frozen.",
        flush=True,
    )
    history = read_history(load.history_files)
    report = check(history)
    print(report)
    for each in (ends := unexpected_ends(history)):
        print(f"{each.client} gave up: {each.error}")
    failed = bool(report.anomalies or ends or not report.totals.acknowledged)
    if failed or given.keep:
        print(f"The history is in {folder}/history")
    else:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
