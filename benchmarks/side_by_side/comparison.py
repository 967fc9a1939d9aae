"""Rounds of both engines in turn, the results of each round, and the verdicts on the claims.

Invariants: both engines do the same work in every round; they take turns going first; warm-up rounds are
shown but do not count; before each measurement everything written so far is synced to disk, so that no engine
pays for the other's writes, and memory is touched once (`use_memory`), so that none pays for getting it. A
ratio is the embedded broker's figure divided by Apache Kafka's *in the same round* (or that of whatever the
claims are about divided by its peer's); the median over the rounds is compared with the target. With more
than two engines the ratios are those of the others to the last.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from side_by_side.engines import EMBEDDED, FORMER

TIMES: Final = "\N{MULTIPLICATION SIGN}"


class Engine(Protocol):
    """Something that is measured."""

    @property
    def name(self) -> str: ...


AnyEngine = TypeVar("AnyEngine", bound=Engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Something measured, printed with this many `decimals`."""

    name: str
    unit: str
    decimals: int = 0

    def number(self, value: float) -> str:
        return f"{value:,.{self.decimals}f}"

    def shown(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}"

    def spread(self, values: Sequence[float]) -> str:
        """The median, with the lowest and the highest in brackets."""
        median = self.shown(statistics.median(values))
        return (
            f"{median} ({self.number(min(values))} to {self.number(max(values))})" if values[1:] else median
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(Figure):
    """One figure divided by another; small ones, such as 1/200, with more decimals."""

    name: str = "ratio"
    unit: str = TIMES

    def number(self, value: float) -> str:
        return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


RATIO: Final = Ratio()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A target for one figure: for its ratio to the peer's, or for the value of the first engine alone.

    `peer` names the other engine of a ratio, where there may be several.
    """

    figure: str
    of: Literal["ratio", "embedded", "subject"]
    bound: Literal["at least", "at most"]
    target: float
    peer: str = ""

    def met(self, value: float) -> bool:
        return value >= self.target if self.bound == "at least" else value <= self.target


def use_memory(size: int = 3 << 30) -> None:
    """Make the machine allocate memory for the pages that the next round writes.

    In a virtual machine the host serves the first use of a page. Writing 600 MB to a file took 0.15 s of CPU
    with pages that had been used before and 1.45 s with others; which round gets them is chance.
    """
    with mmap.mmap(-1, size) as memory:
        for position in range(0, size, mmap.PAGESIZE):
            memory[position] = 1


class Comparison:
    """Collects the figures of two engines, or of one; the claims are about the first."""

    def __init__(
        self, title: str, *, figures: Sequence[Figure], claims: Sequence[Claim], subject: str = EMBEDDED
    ) -> None:
        self.title = title
        self._subject = subject
        self._figures = {figure.name: figure for figure in figures}
        self._claims = claims
        self._rounds: list[dict[str, Mapping[str, float]]] = []

    def run(
        self,
        engines: Sequence[AnyEngine],
        measure: Callable[[AnyEngine, int], Mapping[str, float]],
        *,
        rounds: int,
        warm_up: int,
    ) -> None:
        """Measure every engine once per round; rounds up to 0 are warm-up."""
        print(f"{self.title}\n", flush=True)
        for number in range(1 - warm_up, rounds + 1):
            in_turn = engines if number % 2 else engines[::-1]
            results = {}
            for engine in in_turn:
                os.sync()
                use_memory()
                results[engine.name] = measure(engine, number)
                self._print_row(f"round {number}" if number > 0 else "warm-up", engine.name, results)
            if number > 0:
                # In the same order, whichever went first.
                self._rounds.append({engine.name: results[engine.name] for engine in engines})
                self._print_ratios(number)

    def report(self, settings: Mapping[str, Any], json_file: Path | None) -> None:
        """Print medians, spreads and verdicts; if a file is given, write them and all rounds to it."""
        if not self._rounds:
            return
        print()
        summary = {name: self._summary(figure) for name, figure in self._figures.items()}
        for name, columns in summary.items():
            print(f"{name}: " + ";  ".join(f"{column} {text}" for column, text in columns.items()))
        print()
        verdicts = [self._verdict(claim) for claim in self._claims]
        for verdict in verdicts:
            print(verdict["text"])
        if json_file is not None:
            content = {
                "benchmark": self.title,
                "machine": machine(),
                "settings": dict(settings),
                "summary": summary,
                "rounds": self._rounds,
                "claims": verdicts,
            }
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")

    @property
    def _names(self) -> list[str]:
        return list(self._rounds[0])

    def _summary(self, figure: Figure) -> dict[str, str]:
        """Median and spread of each engine and of the ratio."""
        columns = {name: figure.spread(self._values(figure.name, name)) for name in self._names}
        for label, name in self._over_last().items():
            columns[label] = RATIO.spread(self._ratios(figure.name, name))
        return columns

    def _over_last(self) -> dict[str, str]:
        """The engines with a ratio to the last one, by the ratio's name."""
        *others, last = self._names
        return {"ratio" if others == [name] else f"{name} / {last}": name for name in others}

    def _values(self, figure: str, engine: str) -> list[float]:
        return [results[engine][figure] for results in self._rounds]

    def _ratios(self, figure: str, engine: str, peer: str = "") -> list[float]:
        peer = peer or self._names[-1]
        return [
            results[engine][figure] / results[peer][figure] if results[peer][figure] else math.nan
            for results in self._rounds
        ]

    def _verdict(self, claim: Claim) -> dict[str, Any]:
        figure = self._figures[claim.figure]
        ratio = claim.of == "ratio"
        shown = RATIO.shown if ratio else figure.shown
        compared = [self._names[0], claim.peer] if claim.peer else self._names
        about = f"{figure.name}, {' / '.join(compared if ratio else self._names[:1])}"
        wanted = f"{claim.bound} {shown(claim.target)}"
        is_judged = len(compared) == 2 and compared[-1] in self._names and compared[-1] != FORMER
        if self._subject not in self._names or (ratio and not is_judged):
            text = f"{about}: target {wanted}, not judged in this run"
            return {**asdict(claim), "wanted": wanted, "met": None, "text": text}
        value = statistics.median(
            self._ratios(figure.name, self._names[0], claim.peer)
            if ratio
            else self._values(figure.name, self._names[0])
        )
        met = claim.met(value)
        text = f"{about}: {shown(value)}, target {wanted}: {'met' if met else 'NOT MET'}"
        return {**asdict(claim), "wanted": wanted, "median": value, "met": met, "text": text}

    def _print_row(self, label: str, name: str, results: Mapping[str, Mapping[str, float]]) -> None:
        shown = "   ".join(
            f"{figure.name} {figure.shown(results[name][figure.name])}" for figure in self._figures.values()
        )
        print(f"{label:8}  {name:14}  {shown}", flush=True)

    def _print_ratios(self, number: int) -> None:
        for label, name in self._over_last().items():
            shown = "   ".join(
                f"{figure} {RATIO.shown(self._ratios(figure, name)[-1])}" for figure in self._figures
            )
            print(f"round {number:<2}  {label:14}  {shown}", flush=True)


def machine() -> dict[str, Any]:
    """What the figures depend on, apart from the settings."""
    git = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": git.stdout.strip(),
        "load_average": os.getloadavg(),
    }
