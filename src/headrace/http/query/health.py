"""What `GET /health` answers: processes and queries, and what is wrong with them.

Ready, in Kubernetes' terms: there are problems if something does not do its work and does not mend by itself
within moments. Whether the gateway alone works is `GET /health/live`.

A problem is a process that does not run; a query that fails again and again, gets no turn although records
wait, or cannot write its commits; a log, lake or supervisor that does not answer. A query that is behind but
advances, one that waits for its topic, and a gap that lies behind a query are shown, but are no problems.
Pure: never asks anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headrace.pipeline.catalogue.status import QueryStatus
from headrace.query.flow import FlowSnapshot

RUNNING: Final = "running"
PIPELINE: Final = "pipeline"
# The state of a query while nobody runs it, whatever was said of it last.
UNKNOWN: Final = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """One process, as its supervisor sees it; `since` in seconds since the epoch."""

    name: str
    state: str
    since: float
    restarts: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformReport:
    """`answers` is False if the supervisor is alive but no longer says anything."""

    supervisor: int
    answers: bool
    processes: tuple[ProcessReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`of` is a process, `supervisor` or a query; `gateway` also if it cannot read the log or the lake."""

    of: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    problems: tuple[Problem, ...]
    processes: tuple[ProcessReport, ...]
    queries: tuple[QueryStatus, ...]
    # Whether the pipeline runs, so that the queries are as they say.
    queries_known: bool


def judged(flow: FlowSnapshot, platform: PlatformReport | None, *, now: float) -> Health:
    """`now` in seconds since the epoch."""
    processes = platform.processes if platform is not None else ()
    problems = [*_of_platform(platform, now)]
    if flow.problem:
        problems.append(Problem(of="gateway", problem=flow.problem, remedy=_remedy("gateway")))
    pipeline = next((each for each in processes if each.name == PIPELINE), None)
    known = pipeline is None or pipeline.state == RUNNING
    if known:
        problems += [found for query in flow.queries if (found := _of_query(query)) is not None]
    return Health(problems=tuple(problems), processes=processes, queries=flow.queries, queries_known=known)


def health_content(health: Health) -> dict[str, Any]:
    first = health.problems[0].problem if health.problems else ""
    return {
        "status": "degraded" if health.problems else "ok",
        "problem": first,
        "problems": [
            {"of": each.of, "problem": each.problem, "remedy": each.remedy} for each in health.problems
        ],
        "processes": [
            {
                "name": each.name,
                "state": each.state,
                "since": each.since,
                "restarts": each.restarts,
                "detail": each.detail,
            }
            for each in health.processes
        ],
        "queries": [_query_content(each, known=health.queries_known) for each in health.queries],
    }


def _of_platform(platform: PlatformReport | None, now: float) -> list[Problem]:
    if platform is None:
        return []
    if not platform.answers:
        pid = platform.supervisor
        problem = f"The supervisor (pid {pid}) does not answer, so the processes may not be as shown."
        return [
            Problem(
                of="supervisor",
                problem=problem,
                remedy=f"If it was stopped by a signal, `kill -CONT {pid}` lets it go on.",
            )
        ]
    return [
        Problem(
            of=each.name,
            problem=f"The process {each.name} is {each.state} (for {max(0, now - each.since):.0f} s)"
            + (f": {each.detail}" if each.detail else "."),
            remedy=_remedy(each.name),
        )
        for each in platform.processes
        if each.state != RUNNING
    ]


def _remedy(process: str) -> str:
    return f"See logs/{process}.log in the data folder."


def _of_query(query: QueryStatus) -> Problem | None:
    progress = query.progress
    if query.is_failing:
        times = f" {query.failures} times in a row" if query.failures > 1 else ""
        return Problem(
            of=query.query,
            problem=f"The query {query.query} failed{times}: {query.message}",
            remedy="It is restarted with a growing pause. See logs/pipeline.log in the data folder.",
        )
    if query.state == "RUNNING" and progress is not None and progress.starved:
        return Problem(
            of=query.query,
            problem=f"The query {query.query} is starved: {progress.starved}",
            remedy="Stop other queries, or give the pipeline more cores and raise pipeline_slots.",
        )
    if query.uncommitted:
        return Problem(
            of=query.query,
            problem=f"The commits of query {query.query} cannot be written: {query.uncommitted}",
            remedy="Its next start will take longer and longer. See logs/pipeline.log in the data folder.",
        )
    return None


def _query_content(query: QueryStatus, *, known: bool) -> dict[str, Any]:
    progress = query.progress
    return {
        "query": query.query,
        "state": query.state if known else UNKNOWN,
        "mode": query.mode,
        "message": query.message,
        "failures": query.failures,
        "starved": progress.starved if progress is not None else "",
        # At most: offsets can have holes.
        "behind_records": progress.behind_records if progress is not None else None,
        "behind_ms": progress.behind_ms if progress is not None else None,
        "advanced_at": progress.advanced_at if progress is not None else None,
        "gaps": [
            {"topic": gap.topic, "partition": gap.partition, "from": gap.first, "to": gap.end, "at": gap.at}
            for gap in query.gaps
        ],
        "at": query.at,
    }
