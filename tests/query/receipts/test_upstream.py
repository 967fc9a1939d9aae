"""What waits at the statements before a table: how many records at most, and why."""

from __future__ import annotations

from collections.abc import Callable

from headrace.query.receipts.ways import QueryWay, Yield
from headrace.query.sources import Waiting
from headrace.query.upstream import Standing, Upstream
from tests.query.receipts.made_platform import QUERY, MadePlatform


class Asked:
    """An upstream whose queries stand as a test says, and whose clock it sets."""

    def __init__(self, platform: MadePlatform) -> None:
        self.platform = platform
        self.standings: dict[str, Standing] = {}
        self.now = 100.0
        self._upstream = Upstream(
            platform.cluster,
            platform.feeds,
            platform.ways,
            lambda query: self.standings.get(query, Standing()),
            clock=lambda: self.now,
        )

    def waiting(self) -> list[Waiting]:
        return list(self._upstream.of(self.platform.snapshots()[self.platform.sink]))


def test_a_statement_that_keeps_up_is_not_mentioned(platform: MadePlatform) -> None:
    platform.post(3)
    assert Asked(platform).waiting() == []


def test_what_a_stopped_statement_has_not_recorded_waits(platform: MadePlatform) -> None:
    asked = Asked(platform)
    asked.standings[QUERY] = Standing(problem="the pipeline process is restarting")
    platform.post(5)
    (waiting,) = asked.waiting()
    assert waiting == Waiting(
        query=QUERY, topic=platform.source, records=5, reason="the pipeline process is restarting"
    )
    platform.commit_query(3)
    assert [each.records for each in asked.waiting()] == [2]
    # Of a topic that was made again, nothing has been read.
    platform.ways.histories[QUERY][-1].positions["another id"] = platform.ways.histories[QUERY][
        -1
    ].positions.pop(platform.source_id)
    assert [each.records for each in asked.waiting()] == [5]


def test_what_a_running_statement_says_itself(platform: MadePlatform) -> None:
    asked = Asked(platform)
    asked.standings[QUERY] = Standing(behind=7)
    (waiting,) = asked.waiting()
    assert (waiting.records, waiting.reason) == (7, "as of the end of its last batch")


def test_paused_statements_and_chains(platform: MadePlatform) -> None:
    asked = Asked(platform)
    first = QueryWay(
        query="CSAS_1",
        source=platform.letters,
        sink=platform.source,
        letters="",
        gives=Yield.ANY,
        is_paused=True,
    )
    # It reads what the second one writes: a circle.
    beside = QueryWay(query="CSAS_2", source=platform.sink, sink=platform.source, letters="", gives=Yield.ANY)
    table = QueryWay(
        query="CTAS_3", source=platform.letters, sink=platform.sink, letters="", gives=Yield.BESIDE
    )
    asked.standings["CTAS_3"] = Standing(problem="it is FAILED")
    platform.ways.ways += [first, beside, table]
    platform.post(2)
    assert [(each.query, each.topic, each.reason) for each in asked.waiting()] == [
        ("CSAS_1", platform.letters, "it is paused")
    ]


def test_a_log_that_is_away_is_not_asked_again_and_again(
    make_platform: Callable[..., MadePlatform],
) -> None:
    platform = make_platform()
    asked = Asked(platform)
    asked.standings[QUERY] = Standing(problem="it is FAILED")
    platform.post()
    platform.ways.away = True
    assert asked.waiting() == []
    platform.ways.away = False
    assert asked.waiting() == []
    asked.now += 6
    assert [each.records for each in asked.waiting()] == [1]
