"""The rule of exactly once under everything that can happen, in any order; and mutants of it, which fail.

The model (`model/`) is the way from the events to the lake: topics with holes, runs whose records land in any
order, crashes at every step, topics that come back shorter or as others, chains. What a run decides is
decided by the shipped code.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.scenarios import SCENARIOS
from tests.exactly_once.model.steps import STEPS, WEIGHTS, Steps, walk

# Walks at random until a mutant is caught; each was caught by less than 4,000.
MOST_WALKS = 20_000
# A sampled list with repetitions: Hypothesis chooses evenly among its entries.
NAMES = [name for name, weight in WEIGHTS.items() for _ in range(max(1, round(weight)))]


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()

    @initialize(has_count=st.booleans())
    def begin(self, has_count: bool) -> None:
        self.steps = Steps(has_count=has_count)

    @rule(name=st.sampled_from(NAMES), seed=st.integers(0, 1 << 16))
    def step(self, name: str, seed: int) -> None:
        self.steps.take(name, Random(seed))

    def teardown(self) -> None:
        assert self.steps.problems() == []


def test_nothing_is_lost_and_nothing_is_double() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=300,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_step_is_taken() -> None:
    assert STEPS.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("clause", list(Clause), ids=lambda clause: clause.name.lower())
def test_a_mutant_without_a_clause_is_caught(clause: Clause) -> None:
    if clause in SCENARIOS:
        is_caught = bool(SCENARIOS[clause](clause))
    else:
        is_caught = any(walk(seed, clause) for seed in range(MOST_WALKS))
    assert is_caught, f"not needed: {clause.value}"


@pytest.mark.parametrize("clause", list(SCENARIOS), ids=lambda clause: clause.name.lower())
def test_the_rule_holds_in_the_scenario_of_its_mutant(clause: Clause) -> None:
    assert SCENARIOS[clause](None) == []
