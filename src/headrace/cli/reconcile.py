"""`headrace reconcile`: the findings as tables or as JSON, and the exit code that goes with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from headrace.assembly.reconciliation import Reconciliation
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.repairs import Repair
from headrace.pipeline.runs.stretches import joined
from headrace.reconcile.findings import Basis, Finding, PartitionCounts

EXIT_CLEAN: Final = 0
EXIT_DIFFERENT: Final = 1
# More are counted, but not shown one by one.
_MOST_NAMED: Final = 20
_COLUMNS: Final = ("partition", "offsets", "accepted", "written", "dead letters")


def run_reconcile(settings: Settings, *, is_full: bool, as_json: bool, with_repair: bool) -> int:
    """Print each finding; 1 if anything is missing or double, and is still so after a repair."""
    console = Console(quiet=as_json)
    reconciliation = Reconciliation(settings)
    findings = _compared(reconciliation, console, is_full=is_full)
    answers: list[Repair] = []
    if with_repair and not all(finding.is_clean for finding in findings):
        answers = reconciliation.repair(findings)
        for answer in answers:
            console.print(f"[bold]{answer.query}[/bold]: {repaired(answer)}", soft_wrap=True)
        findings = _compared(Reconciliation(settings), console, is_full=is_full)
    if as_json:
        repairs = {
            finding.query: [repaired(answer) for answer in answers if answer.query == finding.query]
            for finding in findings
        }
        # Not with rich, which would wrap it.
        print(
            json.dumps(
                [
                    as_content(finding) | ({"repairs": repairs[finding.query]} if with_repair else {})
                    for finding in findings
                ]
            )
        )
    return EXIT_CLEAN if all(finding.is_clean for finding in findings) else EXIT_DIFFERENT


def _compared(reconciliation: Reconciliation, console: Console, *, is_full: bool) -> list[Finding]:
    findings = []
    for finding in reconciliation.run(is_full=is_full):
        findings.append(finding)
        print_finding(console, finding)
    console.print(summary(findings), soft_wrap=True)
    return findings


def repaired(answer: Repair) -> str:
    if answer.state == "FAILED":
        return f"not repaired: {answer.message}"
    return f"{answer.changed} repaired" + (f" ({answer.message})" if answer.message else "")


def summary(findings: Sequence[Finding]) -> str:
    """Claims no more than was compared."""
    missing = sum(len(finding.missing) for finding in findings)
    double = sum(len(finding.doubles) for finding in findings)
    left_out = sum(bool(finding.unchecked) for finding in findings)
    waiting = sum(finding.waiting for finding in findings)
    if missing + double:
        text = f"{missing} missing, {double} double"
    else:
        text = "Found nothing missing or double" if left_out else "Nothing is missing and nothing is double"
    if left_out:
        text += f"; {left_out} of {len(findings)} not fully compared"
    if waiting:
        text += f"; {waiting:,} without a result yet"
    return f"{text}."


def print_finding(console: Console, finding: Finding) -> None:
    console.print(f"[bold]{finding.query}[/bold]: {finding.source} → {finding.sink}", soft_wrap=True)
    if finding.partitions:
        table = Table(box=None, padding=(0, 2))
        for name in _COLUMNS:
            table.add_column(name, justify="right")
        for partition in finding.partitions:
            table.add_row(*_cells(partition))
        written = f"{finding.written:,}"
        table.add_row("all", "", f"{finding.accepted:,}", written, f"{finding.dead_letters:,}", style="bold")
        console.print(table)
    if finding.unchecked:
        extent = "not compared" if finding.basis is Basis.NOTHING else "not fully compared"
        console.print(f"  {extent}: {finding.unchecked}", soft_wrap=True)
    if finding.missing:
        shown = _shortened(missing_places(finding))
        console.print(f"  [red]missing: {len(finding.missing)}[/red]: {shown}", soft_wrap=True)
    if finding.doubles:
        shown = _shortened(
            f"{double.id} ({double.times} times)"
            + (f" at {', '.join(double.places)}" if double.places else "")
            for double in finding.doubles
        )
        console.print(f"  [red]double: {len(finding.doubles)}[/red]: {shown}", soft_wrap=True)
    if finding.waiting:
        console.print(f"  without a result yet: {finding.waiting:,}")
    if finding.partitions and finding.is_clean:
        found = "the totals agree" if finding.basis is Basis.COUNTS else "nothing missing, nothing double"
        console.print(f"  {found} (compared by {finding.basis.value})")


def missing_places(finding: Finding) -> list[str]:
    """The missing records: topic, partition, and the first and last offset of each stretch."""
    return [
        f"{finding.source} {partition}:{first}" + (f"-{last}" if last > first else "")
        for partition, first, last in joined(finding.missing)
    ]


def as_content(finding: Finding) -> dict[str, object]:
    return {
        "query": finding.query,
        "source": finding.source,
        "sink": finding.sink,
        "compared_by": finding.basis.value,
        "accepted": finding.accepted,
        "written": finding.written,
        "dead_letters": finding.dead_letters,
        "partitions": [
            {
                "partition": each.partition,
                "first": each.first,
                "end": each.end,
                "accepted": each.accepted,
                "written": each.written,
                "dead_letters": each.dead_letters,
            }
            for each in finding.partitions
        ],
        "missing": [
            {"partition": partition, "first": first, "last": last}
            for partition, first, last in joined(finding.missing)
        ],
        "doubles": [
            {"id": double.id, "times": double.times, "places": list(double.places)}
            for double in finding.doubles
        ],
        "waiting": finding.waiting,
        "unchecked": finding.unchecked,
    }


def _cells(partition: PartitionCounts) -> tuple[str, ...]:
    return (
        str(partition.partition),
        f"{partition.first:,} to {partition.end:,}",
        f"{partition.accepted:,}",
        "" if partition.written is None else f"{partition.written:,}",
        f"{partition.dead_letters:,}",
    )


def _shortened(texts: Iterable[str]) -> str:
    listed = list(texts)
    shown = ", ".join(listed[:_MOST_NAMED])
    return f"{shown} and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else shown
