"""The cases of `tests/statements/cases`, each a test; several run at the same time on one session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker
from tests.pipeline.case_running import Around, SharedRegistry, run
from tests.statements.case_files import Case, cases

AT_THE_SAME_TIME = 3
SECONDS = 540


def _parameters() -> Iterator[object]:
    for case in cases():
        marks = [pytest.mark.long] if case.is_long else []
        if case.fails is not None:
            marks.append(pytest.mark.xfail(strict=True, reason=case.fails))
        yield pytest.param(case, id=case.id, marks=marks)


class RunningCases:
    """Runs the chosen cases, several at the same time, a file at a time."""

    def __init__(self, chosen: Sequence[Case], around: Around, pool: ThreadPoolExecutor) -> None:
        self._chosen = chosen
        self._around = around
        self._pool = pool
        self._begun: dict[str, dict[str, Future[None]]] = {}

    def outcome(self, case: Case) -> Future[None]:
        if case.file not in self._begun:
            self._begun[case.file] = {
                each.id: self._pool.submit(run, each, self._around)
                for each in self._chosen
                if each.file == case.file
            }
        return self._begun[case.file][case.id]


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCases]:
    chosen = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_case
    ]
    folder = tmp_path_factory.mktemp("cases")
    # Nothing expires: records have timestamps of 1970.
    with EmbeddedBroker(folder / "broker", configs={"log.retention.ms": "-1"}) as broker:
        around = Around(spark=spark, bootstrap=broker.bootstrap, folder=folder, registry=SharedRegistry())
        pool = ThreadPoolExecutor(AT_THE_SAME_TIME)
        try:
            yield RunningCases(chosen, around, pool)
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", list(_parameters()))
def test_case(case: Case, running: RunningCases) -> None:
    running.outcome(case).result(SECONDS)
