"""Runs every benchmark of the embedded broker, one after the other, and prints a table of the results.

The figures of each round go to a folder as JSON. Run nothing else on the machine meanwhile. With `--smoke`
everything is tiny: it checks that it works, not how fast it is.

    python benchmarks/broker_benchmarks.py [--results FOLDER] [--smoke] [--table-only] [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SMOKE: dict[str, tuple[str, ...]] = {
    "produce_throughput": ("--records", "50000", "--rounds", "1"),
    "produce_single_records": ("--records", "3000", "--rounds", "1"),
    "produce_lz4": ("--records", "50000", "--rounds", "1"),
    "consume_assigned": ("--records", "100000", "--rounds", "1"),
    "end_to_end_latency": ("--seconds", "2", "--rounds", "1"),
    "consumer_perf": ("--records", "100000", "--rounds", "1"),
    "groups_join": ("--consumers", "10", "--rounds", "1"),
    "offset_commits": ("--commits", "2000", "--one-by-one", "200", "--rounds", "1"),
    "transactions": ("--transactions", "20", "--rounds", "1", "--warm-up", "1"),
    "memory": ("--records", "50000", "--rounds", "1"),
    "start_time": ("--rounds", "1", "--warm-up", "0"),
    "idle_partitions": ("--partitions", "50", "--seconds", "3", "--settle", "1", "--rounds", "1"),
    "reopen_small_batches": ("--gigabytes", "0.1", "--small", "0.02", "--more", "0.01", "--rounds", "2"),
    "compaction": ("--records", "50000", "--keys", "5000", "--rounds", "1"),
    "produce_during_cleaning": (
        *("--seconds", "2", "--rate", "1000", "--records", "20000"),
        *("--rounds", "1"),
    ),
    "reopen": ("--gigabytes", "0.2", "--more", "0.05", "--rounds", "1"),
}


def run(name: str, results: Path, *, smoke: bool) -> bool:
    began = time.monotonic()
    command = [
        sys.executable,
        str(Path(__file__).with_name(f"{name}.py")),
        "--json",
        str(results / f"{name}.json"),
    ]
    done = subprocess.run([*command, *(SMOKE[name] if smoke else ())], check=False)
    print(
        f"\n{name}: exit code {done.returncode}, {time.monotonic() - began:.0f} s\n{'-' * 100}\n", flush=True
    )
    return done.returncode == 0


def table(results: Path, names: list[str]) -> str:
    """All figures in Markdown; those with a target say whether it is met."""
    lines = [
        "| | embedded broker | Apache Kafka 4.3.1 | ratio | target | |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        file = results / f"{name}.json"
        if not file.exists():
            continue
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        lines.append(f"| **{content['benchmark']}** | | | | | |")
        claims = {claim["figure"]: claim for claim in content["claims"]}
        for figure, columns in content["summary"].items():
            cells = [columns.get(column, "") for column in ("embedded", "Apache Kafka", "ratio")]
            lines.append("| " + " | ".join((figure, *cells, *_target(claims.get(figure)))) + " |")
    return "\n".join(lines)


def _target(claim: dict[str, Any] | None) -> tuple[str, str]:
    if claim is None:
        return "", ""
    return claim["wanted"], {True: "met", False: "**not met**", None: "not judged"}[claim["met"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SMOKE)} (default: all)")
    parser.add_argument("--results", type=Path, default=Path("build/benchmarks"), help="folder for the JSON")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    parser.add_argument("--table-only", action="store_true", help="run nothing, show the folder's results")
    arguments = parser.parse_args()
    names = arguments.names or list(SMOKE)
    if unknown := sorted(set(names) - set(SMOKE)):
        parser.error(f"unknown: {', '.join(unknown)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    failed = []
    if not arguments.table_only:
        failed = [name for name in names if not run(name, arguments.results, smoke=arguments.smoke)]
    print(table(arguments.results, names))
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
