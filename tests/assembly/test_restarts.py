"""When a process that died is started again."""

from __future__ import annotations

from headrace.assembly.restarts import DeathRecord, RestartPolicy


def test_the_wait_doubles_up_to_the_longest() -> None:
    policy = RestartPolicy(first_delay=0.5, factor=2.0, longest_delay=10.0)
    assert [policy.delay(deaths) for deaths in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert policy.delay(1_000_000) == 10.0


def test_deaths_in_a_row_count_until_the_process_was_healthy() -> None:
    policy = RestartPolicy(healthy_after=30.0)
    record = DeathRecord()
    for expected in (1, 2, 3):
        record = record.after_death(policy, ready_for=29.9)
        assert (record.in_a_row, record.ever) == (expected, expected)
    record = record.after_death(policy, ready_for=30.0)
    assert (record.in_a_row, record.ever) == (1, 4)
    assert record.after_death(policy, ready_for=0.0).in_a_row == 2
