"""The table of processes: its orders can be followed, and its words mean something."""

from __future__ import annotations

import dataclasses
from graphlib import TopologicalSorter

from headrace.assembly.process_specs import PROCESSES, processes_for
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


def test_an_external_log_is_not_started_and_not_waited_for() -> None:
    external = dataclasses.replace(Settings(), engine="external", bootstrap_servers="kafka.test:9092")
    specs = {spec.name: spec for spec in processes_for(external)}
    assert set(specs) == {"ingest", "gateway", "pipeline"}
    assert specs["ingest"].needs == ()
    assert specs["pipeline"].needs == ("ingest", "gateway")
    assert {spec.name for spec in processes_for(Settings())} == {"log", "ingest", "gateway", "pipeline"}
