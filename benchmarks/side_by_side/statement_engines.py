"""The command line of the statement benchmarks, and the two engines it selects.

Both write to the platform's broker; stock Spark starts once the platform is up, and both run to the end.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from side_by_side.stock_spark import StockSpark
from side_by_side.whole_platform import Platform

StatementEngine = Platform | StockSpark


def parser(description: str | None, *, rounds: int, warm_up: int = 1) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--rounds", type=int, default=rounds, help=f"measured rounds (default {rounds})")
    result.add_argument("--warm-up", type=int, default=warm_up, help=f"rounds before (default {warm_up})")
    result.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    result.add_argument("--only", choices=("headrace", "stock"), help="omit the other")
    return result


@contextmanager
def engines(platform: Platform, only: str | None) -> Iterator[list[StatementEngine]]:
    """The platform and a stock Spark, unless one is omitted."""
    with ExitStack() as stack:
        found: list[StatementEngine] = []
        if only != "stock":
            found.append(platform)
        if only != "headrace":
            folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            found.append(stack.enter_context(StockSpark(platform.settings, folder)))
        yield found


def label(engine: StatementEngine, number: int) -> str:
    """A part of a topic's name, unique to engine and round; warm-up rounds have numbers below zero."""
    return f"{engine.name.partition(' ')[0]}_{number + 100}"
