"""The table of processes: its orders can be followed, and its words mean something."""

from __future__ import annotations

import dataclasses
from graphlib import TopologicalSorter

from headrace.assembly.process_specs import PROCESSES
from headrace.core.settings import Settings, field_names


def test_the_log_starts_first_and_ends_last() -> None:
    starts = list(TopologicalSorter({spec.name: spec.needs for spec in PROCESSES}).static_order())
    ends = list(TopologicalSorter({spec.name: spec.drains_after for spec in PROCESSES}).static_order())
    assert starts[0] == "log"
    assert starts[-1] == "pipeline"
    assert ends == ["ingest", "pipeline", "gateway", "log"]


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
