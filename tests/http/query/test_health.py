"""What makes `/health` bad, and what does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from headrace.core.histogram import Histogram
from headrace.http.query.health import PlatformReport, ProcessReport, health_content, judged
from headrace.pipeline.catalogue.status import Gap, QueryProgress, QueryStatus
from headrace.query.flow import FlowSnapshot

NONE = Histogram().percentiles()
FLOW = FlowSnapshot(accepted=0, avro=0, dead_letters=0, lake=0, avro_latency=NONE, latency=NONE)
RUNNING = QueryStatus(query="CSAS_O_1", state="RUNNING", mode="micro-batch", message="", at=1)
PROGRESS = QueryProgress(
    positions={"in": {0: 1}}, behind_records=12_000, behind_ms=90_000, advanced_at=1, starved=""
)
STARVED = dataclasses.replace(PROGRESS, starved="no batch has ended for 40 s although records wait")


def _process(name: str, state: str = "running", detail: str = "") -> ProcessReport:
    return ProcessReport(name=name, state=state, since=100.0, restarts=0, detail=detail)


def _platform(*processes: ProcessReport, answers: bool = True) -> PlatformReport:
    return PlatformReport(supervisor=77, answers=answers, processes=processes)


ALL_RUN = _platform(*(_process(name) for name in ("log", "ingest", "gateway", "pipeline")))


def _answer(*queries: QueryStatus, platform: PlatformReport | None = ALL_RUN) -> dict[str, Any]:
    return health_content(judged(dataclasses.replace(FLOW, queries=queries), platform, now=142.0))


@pytest.mark.parametrize(
    "query",
    [
        RUNNING,
        dataclasses.replace(RUNNING, state="WAITING", message="topic in does not exist yet"),
        dataclasses.replace(RUNNING, state="STOPPED"),
        # It advances: after a pause, for instance.
        dataclasses.replace(RUNNING, progress=PROGRESS),
        # It was restarted once, for whatever reason.
        dataclasses.replace(RUNNING, failures=1),
        dataclasses.replace(
            RUNNING, gaps=(Gap(topic="in", topic_id="i", partition=0, first=0, end=9, at=1),)
        ),
    ],
)
def test_well(query: QueryStatus) -> None:
    answer = _answer(query)
    assert (answer["status"], answer["problem"], answer["problems"]) == ("ok", "", [])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            dataclasses.replace(RUNNING, state="FAILED", message="disk full", failures=1),
            "The query CSAS_O_1 failed: disk full",
        ),
        # Between two failures it says that it runs.
        (
            dataclasses.replace(RUNNING, message="Incomplete log file", failures=7),
            "The query CSAS_O_1 failed 7 times in a row: Incomplete log file",
        ),
        (
            dataclasses.replace(RUNNING, progress=STARVED),
            "The query CSAS_O_1 is starved: no batch has ended for 40 s",
        ),
        (
            dataclasses.replace(RUNNING, uncommitted="Topic `out` has no leader."),
            "The commits of query CSAS_O_1 cannot be written: Topic `out` has no leader.",
        ),
    ],
)
def test_a_query_in_trouble(query: QueryStatus, words: str) -> None:
    answer = _answer(query)
    assert answer["status"] == "degraded"
    assert answer["problem"].startswith(words)
    assert answer["problems"][0]["of"] == "CSAS_O_1"
    assert answer["problems"][0]["remedy"]


@pytest.mark.parametrize("state", ["waiting", "starting", "stuck", "failing", "restarting", "stopping"])
def test_a_process_that_does_not_run(state: str) -> None:
    platform = _platform(_process("log"), _process("ingest", state, "does not answer; and so on"))
    answer = _answer(RUNNING, platform=platform)
    assert answer["problem"] == f"The process ingest is {state} (for 42 s): does not answer; and so on"
    assert answer["problems"][0]["remedy"] == "See logs/ingest.log in the data folder."
    assert answer["queries"][0]["state"] == "RUNNING"


def test_without_its_pipeline_a_query_is_not_known_to_run() -> None:
    platform = _platform(_process("log"), _process("pipeline", "restarting", "exit code 1; again in 60 s"))
    answer = _answer(dataclasses.replace(RUNNING, progress=STARVED), platform=platform)
    assert [problem["of"] for problem in answer["problems"]] == ["pipeline"]
    assert answer["queries"][0]["state"] == "UNKNOWN"


def test_a_supervisor_that_does_not_answer() -> None:
    answer = _answer(RUNNING, platform=dataclasses.replace(ALL_RUN, answers=False))
    assert answer["problem"].startswith("The supervisor (pid 77) does not answer")
    assert "kill -CONT 77" in answer["problems"][0]["remedy"]


def test_a_gateway_without_a_supervisor_answers_for_the_rest() -> None:
    assert _answer(RUNNING, platform=None)["status"] == "ok"
    lost = dataclasses.replace(FLOW, problem="The log at x does not answer.")
    assert health_content(judged(lost, None, now=0.0))["problem"] == "The log at x does not answer."


def test_lag_and_gaps_are_shown() -> None:
    gap = Gap(topic="in", topic_id="i", partition=3, first=5, end=9, at=11)
    (query,) = _answer(dataclasses.replace(RUNNING, progress=PROGRESS, gaps=(gap,)))["queries"]
    assert (query["behind_records"], query["behind_ms"], query["advanced_at"]) == (12_000, 90_000, 1)
    assert query["gaps"] == [{"topic": "in", "partition": 3, "from": 5, "to": 9, "at": 11}]
    (query,) = _answer(RUNNING)["queries"]
    assert query["behind_records"] is None
