"""A short run of the load: no anomalies, and enough happened for that to mean something."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.testing.history import Assigned, ConsumerStarted, OffsetCommitEnded, check, read_history
from tests.load.mixed_load import LoadPlan, MixedLoad, unexpected_ends


def run(folder: Path, plan: LoadPlan) -> MixedLoad:
    load = MixedLoad(folder, plan)
    load.run()
    history = read_history(load.history_files)
    report = check(history)
    assert not report.anomalies, f"seed {plan.seed}, history in {load.history_files[0].parent}\n{report}"
    assert not unexpected_ends(history), f"seed {plan.seed}"
    totals = report.totals
    assert totals.acknowledged > 50 * plan.seconds
    assert totals.polled > totals.acknowledged
    assert totals.committed > plan.seconds
    assert totals.aborted > 0
    assert totals.partitions == plan.partitions
    groups = {each.client: each.group for each in history if isinstance(each, ConsumerStarted)}
    assigned = {groups[each.client] for each in history if isinstance(each, Assigned)}
    committed = {groups.get(each.client) for each in history if isinstance(each, OffsetCommitEnded)}
    assert {"classic", "cooperative", "consumer"} <= assigned & committed
    return load


def test_a_short_load_has_no_anomalies(tmp_path: Path) -> None:
    plan = LoadPlan(
        seconds=8,
        seed=random.randrange(2**32),
        fewest_kills=2,
        kill_broker_every=((1.0, 2.0), (3.0, 4.0)),
        kill_client_every=(1.0, 2.0),
        freeze_client_every=(1.0, 3.0),
        freeze_seconds=(0.5, 4.0),
    )
    load = run(tmp_path, plan)
    assert load.broker_kills >= 2
    assert load.client_kills >= 2


@pytest.mark.long
def test_nor_has_one_whose_every_answer_waits_for_the_disk(tmp_path: Path) -> None:
    run(tmp_path, LoadPlan(seconds=60, seed=random.randrange(2**32), fsync="always"))
