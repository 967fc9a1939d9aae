"""Every kind of query survives kills of everything, again and again, at moments nobody chose.

Spark's driver (Python, and the JVM that it starts), the log, the gateway and the whole machine are killed.
The machine comes back with whatever its disk had synced, or with folders that were copied at different
moments. Nothing that was accepted is lost, and nothing is double, in the derived topics and in the lake.

The variable KILL_ROUNDS says how many kills (`make kills ROUNDS=100`), KILL_SEED takes the seed that a
failure names: records and kills are chosen by it; what a kill meets is up to the machine. KILL_OUTPUTS names
some of the output topics, for a machine that has no time for all.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.end_to_end.kills.machine import running_machine
from tests.end_to_end.kills.rounds import Rounds

ROUNDS = int(os.environ.get("KILL_ROUNDS", "24"))
OUTPUTS = os.environ.get("KILL_OUTPUTS", "").split()
SEED = int(os.environ.get("KILL_SEED", "0")) or random.randrange(1, 1 << 30)
CHECK_EVERY = 12


@pytest.mark.long
def test_a_chain_and_a_count_survive_a_kill_and_a_power_cut(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with running_machine(tmp_path, SEED) as machine:
        rounds = Rounds(machine, SEED, ["ORDERS_AVRO", "BIG_ORDERS", "AVRO_COUNTS"])
        rounds.next(["Java"])
        rounds.next(["power"])
        rounds.finish()


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_kind_of_query_survives_kills_of_everything(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    # Real-time batches so short that some end between two kills, and a slot for each partition of each query
    # that may run in real time.
    with running_machine(tmp_path, SEED, pipeline_slots=30, real_time_batch_seconds=15) as machine:
        rounds = Rounds(machine, SEED, OUTPUTS or None)
        for number in range(1, ROUNDS + 1):
            rounds.next()
            if number % CHECK_EVERY == 0:
                rounds.check()
        rounds.finish()
