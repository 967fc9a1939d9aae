"""Random histories of a query, a connector and a table: at every moment, every receipt says what is the case.

The test knows what became of each event, since it plays the query and the connector. A question that names a
receipt shows its event if it is visible, whatever was merged or restored meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.query.receipts.origins import Derived, Lane, OriginIndex, Origins, Source, numbers_of
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.settling import now
from headrace.query.receipts.traces import Seen
from headrace.query.receipts.ways import Yield
from tests.query.receipts.made_platform import MadePlatform

STEPS = 25
# More of them take minutes: RECEIPT_HISTORIES=100.
HISTORIES = int(os.environ.get("RECEIPT_HISTORIES", "3"))


class History:
    """What a query and a connector do, and what becomes of each event. The query takes them in any order."""

    def __init__(self, platform: MadePlatform, chance: Random) -> None:
        self.platform, self.chance = platform, chance
        self.open: list[Receipt] = []
        self.derived: set[int] = set()
        self.rejected: set[int] = set()
        self.posted: list[Receipt] = []
        self.committed = 0
        self.told: list[str] = []

    def step(self) -> None:
        table = self.platform.table
        steps: list[Callable[[], object]] = [
            *([self.post] * 3),
            *([self.derive] * 5),
            self.reject,
            self.drop,
            *([self.commit] * 3),
            *([table.write] * 3),
            table.optimize,
            self.restore,
        ]
        chosen = self.chance.choice(steps)
        self.told.append(chosen.__name__)
        chosen()

    def post(self) -> None:
        found = self.platform.post(self.chance.randint(1, 20))
        self.posted += found
        self.open += found

    def derive(self) -> None:
        some = self._some()
        self.derived |= {each.offset for each in some}
        if some:
            self.platform.derive(some)

    def reject(self) -> None:
        for each in self._some()[:3]:
            self.rejected.add(each.offset)
            self.platform.reject(each, f"bad {each.offset}")

    def drop(self) -> None:
        self._some()

    def commit(self) -> None:
        self.committed = min((each.offset for each in self.open), default=len(self.posted))
        self.platform.commit_query(self.committed)

    def restore(self) -> None:
        version = self.chance.randint(0, self.platform.table.version)
        self.platform.table.restore(version, is_ours=True)

    def _some(self) -> list[Receipt]:
        """Events that nothing has become of yet."""
        count = min(len(self.open), self.chance.randint(0, 10))
        some = self.chance.sample(self.open, count)
        self.open = [each for each in self.open if each not in some]
        return some

    def check(self) -> None:
        asked = self.chance.sample(self.posted, min(len(self.posted), 6))
        if not asked:
            return
        in_files = set(self.platform.table.numbers(self.platform.table.version))
        for receipt, trace in zip(asked, self.platform.ask(asked, now, seconds=30), strict=True):
            assert not trace.is_looking, (receipt, trace, self.told)
            expected = self._expected(receipt.offset, in_files)
            assert (trace.sql, trace.lake) == expected, (receipt, trace, self.told)
            if expected[0] is Seen.DEAD_LETTER:
                assert [each.reason for each in trace.letters] == [f"bad {receipt.offset}"]

    def _expected(self, offset: int, in_files: set[int]) -> tuple[Seen, Seen]:
        if offset in self.derived:
            return Seen.VISIBLE, Seen.VISIBLE if offset in in_files else Seen.PENDING
        if offset in self.rejected:
            return Seen.DEAD_LETTER, Seen.DEAD_LETTER
        seen = Seen.LEFT_OUT if offset < self.committed else Seen.PENDING
        return seen, seen


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_receipts_say_what_is_the_case(make_platform: Callable[..., MadePlatform], seed: int) -> None:
    history = History(make_platform(gives=Yield.ANY), Random(seed))
    for _ in range(STEPS):
        history.step()
        history.check()


PARTS = st.lists(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=8), min_size=1, max_size=40
)
LANES = (Lane("q", "a", 0), Lane("r", "a", 0), Lane("q", "a", 1))


@given(PARTS, st.integers(1, 60), st.lists(st.integers(0, 20), max_size=3))
def test_an_index_finds_what_it_has(
    parts: list[list[tuple[int, int]]], most: int, asked_before: list[int]
) -> None:
    """Whether it was asked before a record came or afterwards, and however small it is."""
    index = OriginIndex({0: 0}, most_records=most)
    for each in asked_before:
        index.find(Source("a", 0, each))
    records: list[tuple[int, Lane, int]] = []
    offset = 0
    for part in parts:
        first = offset
        for source_offset, lane in part:
            records.append((offset, LANES[lane], source_offset))
            # Offsets have holes.
            offset += 2
        index.add(
            0,
            Origins(
                offset=numbers_of(range(first, offset, 2)),
                source_offset=numbers_of(each for each, _ in part),
                lane=numbers_of(each for _, each in part),
                lanes=LANES,
            ),
            reached=offset,
        )
    assert index.reached == {0: offset}
    assert index.records <= most
    kept = [each for each in records if each[0] >= index.begun[0]]
    assert index.records == len(kept)
    for wanted in range(21):
        expected = [
            Derived(query=lane.query, partition=0, offset=at)
            for at, lane, source_offset in (records if wanted in asked_before else kept)
            if source_offset == wanted and lane.partition == 0
        ]
        assert sorted(index.find(Source("a", 0, wanted)), key=lambda each: each.offset) == expected
