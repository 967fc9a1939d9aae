"""The command line of the benchmarks of statements, and the two engines that it asks for.

Both write to the platform's broker; the stock Spark starts when the platform is up, and both run to the end.
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
    result.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts there")
    result.add_argument("--only", choices=("headrace", "stock"), help="leave the other out")
    return result


@contextmanager
def engines(platform: Platform, only: str | None) -> Iterator[list[StatementEngine]]:
    """The platform, and a stock Spark beside it, unless one is to be left out."""
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
    """Part of a topic's name that no other engine and round has; warm-up rounds are numbered below zero."""
    return f"{engine.name.partition(' ')[0]}_{number + 100}"
