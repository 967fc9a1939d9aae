"""Two versions of the whole platform in one run: that of this checkout, and that of another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, TypeVar

from side_by_side.comparison import Comparison
from side_by_side.statement_engines import parser
from side_by_side.up_platform import UpPlatform, up

NEW: Final = "headrace"
FORMER: Final = "former"


class Version(Protocol):
    """What is measured on a platform."""

    name: str

    def close(self) -> None: ...


AnyVersion = TypeVar("AnyVersion", bound=Version)


def version_parser(description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    command = parser(description, rounds=rounds)
    command.add_argument("--former", metavar="COMMAND", required=True, help="`headrace` of another checkout")
    return command


def compare_versions(
    comparison: Comparison,
    arguments: argparse.Namespace,
    *,
    of: Callable[[UpPlatform], AnyVersion],
    measure: Callable[[AnyVersion, int], Mapping[str, float]],
) -> None:
    """Start both, measure them in turn, and report."""
    mine = str(Path(sys.executable).with_name("headrace"))
    with ExitStack() as stack:
        versions = []
        for name, program in ((NEW, mine), (FORMER, arguments.former)):
            version = of(stack.enter_context(up(name, program)))
            stack.callback(version.close)
            versions.append(version)
        comparison.run(versions, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)
