"""The cases of `tests/statements/cases`, each a test; several run at the same time on the one session."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker
from tests.pipeline.case_running import Around, SharedRegistry, run
from tests.statements.case_files import Case, cases

AT_THE_SAME_TIME = 3
SECONDS = 300


def _parameters() -> Iterator[object]:
    for case in cases():
        marks = [] if case.is_quick else [pytest.mark.long]
        if case.fails is not None:
            marks.append(pytest.mark.xfail(strict=True, reason=case.fails))
        yield pytest.param(case, id=case.id, marks=marks)


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """What becomes of each case that was chosen, by its id."""
    chosen = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_case
    ]
    folder = tmp_path_factory.mktemp("cases")
    with EmbeddedBroker(folder / "broker") as broker:
        around = Around(spark=spark, bootstrap=broker.bootstrap, folder=folder, registry=SharedRegistry())
        pool = ThreadPoolExecutor(AT_THE_SAME_TIME)
        try:
            yield {case.id: pool.submit(run, case, around) for case in chosen}
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", list(_parameters()))
def test_case(case: Case, outcomes: dict[str, Future[None]]) -> None:
    outcomes[case.id].result(SECONDS)
