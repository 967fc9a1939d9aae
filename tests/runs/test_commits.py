"""Histories of commits: what is kept, and that they survive the log."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.commits import Commit, History, decode, encode

_OFFSETS = st.dictionaries(
    st.text("abcXYZ09-_", min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 9), st.integers(0, 2**50), max_size=3),
    max_size=2,
)
_COMMITS = st.builds(
    Commit,
    at=st.integers(0, 2**45),
    positions=_OFFSETS,
    sinks_from=_OFFSETS,
    sinks_to=_OFFSETS,
    batch=st.integers(-1, 9),
    checkpoint=st.text(max_size=3),
)


def _gap(first: int, end: int, partition: int = 0) -> Gap:
    return Gap(topic="t", topic_id="id", partition=partition, first=first, end=end, at=1)


def _commit(at: int) -> Commit:
    return Commit(at=at, positions={"s": {0: at}}, sinks_from={}, sinks_to={})


@given(st.lists(_COMMITS, max_size=4), st.none() | _COMMITS)
def test_a_history_survives_the_log(commits: list[Commit], start: Commit | None) -> None:
    history = History(commits=tuple(commits), gaps=(_gap(3, 5),), start=start)
    assert decode(encode(history)) == history


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=200))
def test_the_newest_commits_are_all_kept_and_older_ones_thin_out(pauses: list[int]) -> None:
    history, at, all_of_them = History(), 0, []
    for pause in pauses:
        at += pause
        all_of_them.append(_commit(at))
        history = history.with_commit(all_of_them[-1])
    assert len(history.commits) == min(len(all_of_them), 30)
    assert list(history.commits[-10:]) == all_of_them[-10:]
    assert history.commits[0] == all_of_them[0]
    assert list(history.commits) == sorted(history.commits, key=lambda commit: commit.at)
    assert history.newest == all_of_them[-1]


def test_older_commits_reach_back_evenly_by_age() -> None:
    history = History()
    for second in range(0, 12 * 3600, 10):
        history = history.with_commit(_commit(second * 1000))
    ages = [12 * 3600 - commit.at // 1000 for commit in history.commits]
    for limit in (60, 600, 3600, 6 * 3600):
        assert any(limit / 3 <= age <= limit * 3 for age in ages), ages


def test_commits_after_the_one_resumed_from_are_dropped() -> None:
    history = History(commits=tuple(_commit(at) for at in range(5)))
    assert history.without_newer(history.commits[2]).commits == history.commits[:3]
    begun = history.beginning_at(_commit(9))
    assert (begun.commits, begun.start) == ((), _commit(9))


def test_a_gap_found_again_counts_once() -> None:
    history = History().with_gaps((_gap(3, 5), _gap(0, 7, partition=1)))
    history = history.with_gaps((dataclasses.replace(_gap(3, 9), at=8),))
    assert history.gaps == (_gap(0, 7, partition=1), _gap(3, 9))


def _wide_commit(at: int, partitions: int) -> Commit:
    offsets = dict.fromkeys(range(partitions), 10**13)
    return Commit(
        at=at, positions={"s" * 22: offsets}, sinks_from={"d" * 22: offsets}, sinks_to={"d" * 22: offsets}
    )


@pytest.mark.parametrize("partitions", [650, 800, 2_000])
def test_a_history_of_many_partitions_is_no_larger_than_a_message(partitions: int) -> None:
    history = History(start=_wide_commit(0, partitions))
    for number in range(100):
        history = history.with_commit(_wide_commit(number * 2_000, partitions))
        assert len(encode(history)) < 1_000_000
    assert len(history.commits) > 5
    assert [commit.at for commit in history.commits[-2:]] == [196_000, 198_000]
    assert history.commits[0].at == 0


def test_a_history_has_commits_whatever_its_size() -> None:
    history = History()
    for number in range(20):
        history = history.with_commit(_wide_commit(number * 2_000, 20_000))
    assert [commit.at for commit in history.commits] == [0, 36_000, 38_000]
    assert len(encode(history)) < 16 * 1024 * 1024


@given(st.lists(st.integers(-(10**6), 10**6), min_size=31, max_size=80))
def test_a_clock_may_be_set_back(times: list[int]) -> None:
    history = History()
    for at in (*range(10_000, 10_030), *times, 9_999):
        history = history.with_commit(_commit(at))
    assert len(history.commits) == 30
    assert history.commits[-1].at == 9_999
