"""The table of processes: its orders can be followed, and its words mean something."""

from __future__ import annotations

import dataclasses
from graphlib import TopologicalSorter

from headrace.assembly.process_specs import PROCESSES
from headrace.assembly.restarts import RestartPolicy
from headrace.core.settings import Settings, field_names


def test_the_log_starts_first_and_ends_last() -> None:
    starts = list(TopologicalSorter({spec.name: spec.needs for spec in PROCESSES}).static_order())
    ends = list(TopologicalSorter({spec.name: spec.drains_after for spec in PROCESSES}).static_order())
    assert starts[0] == "log"
    assert starts[-1] == "pipeline"
    apart = ("connect", "query")
    assert [name for name in ends if name not in apart] == ["ingest", "pipeline", "gateway", "log"]
    assert all(ends.index(name) < ends.index("log") for name in apart)


def test_every_name_in_the_table_exists() -> None:
    names = {spec.name for spec in PROCESSES}
    for spec in PROCESSES:
        assert names.issuperset(spec.needs)
        assert names.issuperset(spec.drains_after)
        assert set(field_names()).issuperset(spec.ports)
        assert {"", *field_names()}.issuperset([spec.grace_setting])


def test_a_longer_wait_of_ingest_gives_it_a_longer_grace() -> None:
    ingest = next(spec for spec in PROCESSES if spec.name == "ingest")
    longer = dataclasses.replace(Settings(), ingest_timeout_ms=Settings().ingest_timeout_ms + 7000)
    assert ingest.grace(longer) == ingest.grace(Settings()) + 7


def test_only_the_pipeline_waits_long_before_a_restart() -> None:
    longest = {spec.name: spec.longest_delay for spec in PROCESSES}
    assert longest.pop("pipeline") == 60.0
    assert set(longest.values()) == {10.0}
    assert RestartPolicy().longest_delay == 60.0


def test_all_give_signs_of_life_and_only_the_log_is_essential() -> None:
    assert all(spec.silent_seconds > 0 for spec in PROCESSES)
    assert [spec.name for spec in PROCESSES if spec.essential] == ["log"]
