"""What `headrace reconcile` prints for given findings."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Iterator, Sequence

import pytest
from rich.console import Console

from headrace.cli import reconcile
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.repairs import Repair
from headrace.reconcile.findings import Basis, Double, Finding, PartitionCounts

CLEAN = Finding(
    query="CSAS_A_1",
    source="events",
    sink="events_avro",
    basis=Basis.FINGERPRINTS,
    written=1999,
    partitions=(
        PartitionCounts(partition=0, first=0, end=2100, accepted=2000, written=1999, dead_letters=1),
    ),
)
WRONG = Finding(
    query="events-to-lake",
    source="events_avro",
    sink="events",
    basis=Basis.IDENTITIES,
    written=1998,
    partitions=(
        PartitionCounts(partition=0, first=0, end=2000, accepted=2000, written=1998, dead_letters=0),
    ),
    missing=((0, 5), (0, 6), (0, 9)),
    doubles=(Double(id="CSAS_A_1/id/0/7/0", times=2),),
)
UNCHECKED = Finding(
    query="CTAS_B_2",
    source="events",
    sink="B",
    basis=Basis.NOTHING,
    unchecked="an aggregate comes from many records.",
)


def printed(finding: Finding) -> str:
    output = io.StringIO()
    console = Console(width=100, file=output)
    reconcile.print_finding(console, finding)
    return output.getvalue()


def test_what_is_wrong_is_named() -> None:
    text = printed(WRONG)
    assert "missing: 3: events_avro 0:5-6, events_avro 0:9" in text
    assert "double: 1: CSAS_A_1/id/0/7/0 (2 times)" in text
    assert "nothing missing" not in text


def test_what_is_right_is_counted() -> None:
    text = printed(CLEAN)
    assert "nothing missing, nothing double (compared by fingerprints)" in text
    assert "2,000" in text
    assert "1,999" in text


def test_what_was_not_compared_is_said() -> None:
    assert "not compared: an aggregate" in printed(UNCHECKED)
    assert (
        reconcile.summary([CLEAN, UNCHECKED]) == "Found nothing missing or double; 1 of 2 not fully compared."
    )
    assert reconcile.summary([CLEAN]) == "Nothing is missing and nothing is double."
    assert reconcile.summary([CLEAN, WRONG]) == "3 missing, 1 double."


def test_totals_that_agree_are_not_taken_for_records() -> None:
    counted = dataclasses.replace(CLEAN, basis=Basis.COUNTS, unchecked="only the totals were.")
    text = printed(counted)
    assert "not fully compared: only the totals were." in text
    assert "the totals agree (compared by counts)" in text
    assert "nothing missing" not in text
    assert reconcile.summary([counted]) == "Found nothing missing or double; 1 of 1 not fully compared."


def test_what_waits_is_said_also_in_the_summary() -> None:
    """The query may have failed long ago."""
    waiting = dataclasses.replace(CLEAN, waiting=40_000)
    assert "without a result yet: 40,000" in printed(waiting)
    assert (
        reconcile.summary([CLEAN, waiting])
        == "Nothing is missing and nothing is double; 40,000 without a result yet."
    )


def test_many_are_shortened() -> None:
    many = Finding(
        query="q", source="s", sink="t", basis=Basis.IDENTITIES, missing=tuple((0, 2 * n) for n in range(50))
    )
    assert "missing: 50: s 0:0, s 0:2" in printed(many)
    assert "and 30 more" in printed(many)


@pytest.mark.parametrize(("findings", "code"), [([CLEAN, UNCHECKED], 0), ([CLEAN, WRONG], 1), ([], 0)])
def test_the_exit_code_tells_whether_all_is_there_once(
    findings: list[Finding], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Found:
        def __init__(self, _settings: Settings) -> None: ...

        def run(self, *, is_full: bool) -> Iterator[Finding]:
            assert is_full
            yield from findings

    monkeypatch.setattr(reconcile, "Reconciliation", Found)
    run = functools.partial(reconcile.run_reconcile, Settings(), is_full=True, with_repair=False)
    assert run(as_json=True) == code
    assert capsys.readouterr().out.count('"query"') == len(findings)
    assert run(as_json=False) == code


def test_a_repair_is_told_and_everything_is_compared_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Sequence[Finding]] = []
    failed = Repair(id="2", query=WRONG.query, topic_id="t", state="FAILED", message="It keeps state.")
    part = Repair(id="1", query=WRONG.query, topic_id="t", state="DONE", changed=2, message="1 expired")

    class Found:
        def __init__(self, _settings: Settings) -> None: ...

        def run(self, *, is_full: bool) -> Iterator[Finding]:  # noqa: ARG002 - of the interface
            yield CLEAN if asked else WRONG

        def repair(self, findings: Sequence[Finding]) -> list[Repair]:
            asked.append(findings)
            return [part, failed]

    monkeypatch.setattr(reconcile, "Reconciliation", Found)
    run = functools.partial(reconcile.run_reconcile, Settings(), is_full=False, with_repair=True)
    assert run(as_json=False) == 0, "what counts is what was found afterwards"
    assert asked == [[WRONG]]
    text = capsys.readouterr().out
    assert "2 repaired (1 expired)" in text
    assert "not repaired: It keeps state." in text
    assert run(as_json=True) == 0
    assert len(asked) == 1, "what is right is not repaired"
    assert '"repairs": []' in capsys.readouterr().out
