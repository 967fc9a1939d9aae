"""Every kind of query survives kills of everything, again and again, at moments nobody chose.

Spark's driver (Python, and the JVM that it starts), the log, the gateway and the whole machine are killed.
The machine comes back with whatever its disk had synced, or with folders that were copied at different
moments. Nothing that was accepted is lost, and nothing is double, in the derived topics and in the lake.

The variable KILL_ROUNDS says how many kills (`make kills ROUNDS=100`), shared out to groups of queries;
KILL_SEED takes the seed that a failure names: records and kills are chosen by it; what a kill meets is up to
the machine. KILL_OUTPUTS names some of the output topics, to have all rounds with these.
"""

from __future__ import annotations

import os
import random
from itertools import islice
from pathlib import Path

import pytest

from tests.end_to_end.kills.machine import running_machine
from tests.end_to_end.kills.rounds import Rounds, kinds
from tests.end_to_end.kills.statements import GROUPS

ROUNDS = int(os.environ.get("KILL_ROUNDS", "24"))
OUTPUTS = os.environ.get("KILL_OUTPUTS", "").split()
SEED = int(os.environ.get("KILL_SEED", "0")) or random.randrange(1, 1 << 30)
CHECK_EVERY = 12
# So short that some real-time batches end between two kills.
BATCH_SECONDS = 5


def test_a_chain_and_a_count_survive_a_kill_and_a_power_cut(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with running_machine(tmp_path, SEED, real_time_batch_seconds=BATCH_SECONDS) as machine:
        rounds = Rounds(machine, SEED, ["ORDERS_AVRO", "BIG_ORDERS", "AVRO_COUNTS"])
        # By then all have written something.
        rounds.next("Java", after="AVRO_COUNTS")
        # What BIG_ORDERS and the lake's topic have got is not on the disk yet, and will be missing.
        rounds.next("power", after="ORDERS_AVRO")
        rounds.finish()


def _shares() -> list[tuple[str, list[str], range]]:
    """The name of each group, its outputs, and its share of the rounds."""
    groups = {"given": tuple(OUTPUTS)} if OUTPUTS else GROUPS
    ends = [ROUNDS * number // len(groups) for number in range(len(groups) + 1)]
    return [
        (name, list(groups[name]), range(ends[number], ends[number + 1]))
        for number, name in enumerate(groups)
    ]


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("outputs", "share"), [pytest.param(*each[1:], id=each[0]) for each in _shares()])
def test_every_kind_of_query_survives_kills_of_everything(
    tmp_path: Path, outputs: list[str], share: range
) -> None:
    print(f"seed {SEED}")
    # A slot for each partition of each query that may run in real time.
    with running_machine(tmp_path, SEED, pipeline_slots=30, real_time_batch_seconds=BATCH_SECONDS) as machine:
        rounds = Rounds(machine, SEED + share.start, outputs)
        for number, kind in enumerate(islice(kinds(SEED), share.start, share.stop), start=1):
            rounds.next(kind)
            if number % CHECK_EVERY == 0:
                rounds.check()
        rounds.finish()
