"""Histories of a log without faults give no anomaly; with one planted, exactly that kind is found."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.testing.history import RULES, check
from headrace.testing.history.facts import Facts
from tests.testing.planted_anomalies import PLANTS
from tests.testing.simulated_run import simulate

randoms = st.randoms(use_true_random=False)
steps = st.integers(min_value=0, max_value=40)


def test_every_rule_has_a_plant() -> None:
    assert list(PLANTS) == [rule.name for rule in RULES]


@given(random=randoms, steps=steps)
def test_a_good_log_has_no_anomalies(random: Random, steps: int) -> None:
    report = check(simulate(random, steps))
    assert not report.anomalies, str(report)


@pytest.mark.parametrize("kind", list(PLANTS))
@given(random=randoms, steps=steps)
def test_a_planted_anomaly_is_found_and_nothing_else(kind: str, random: Random, steps: int) -> None:
    events = simulate(random, steps)
    planted = PLANTS[kind](events, Facts(events), random)
    report = check(planted)
    assert set(report.anomalies) == {kind}, str(report)
    for anomaly in report.anomalies[kind]:
        assert anomaly.events
