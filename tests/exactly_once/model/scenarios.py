"""Stories that are too long to be met by chance, each for the clause of the rule that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.exactly_once.model.checking import problems, settle
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.queries import OTHER, TABLE
from tests.exactly_once.model.world import World


def unusable_commits_would_count_again(without: Clause | None) -> list[str]:
    """Two commits count on rows that a power cut takes. Their rows are written again, and retention removes
    the place where the witnesses were missing. Then another power cut takes the rows once more.
    """
    chance = Random(0)
    world = World(without, queries=[OTHER])
    name = OTHER.name
    sink = world.log.make("c", 1).partitions[0]
    for _ in range(4):
        world.produce("events", "a", "1", 0)
    world.start(name, chance)
    for _ in range(3):
        world.begin_batch(name, {0: 1})
        world.finish(name, chance)
        world.record(name)
        if sink.end == 1:
            sink.sync()
    world.kill()
    sink.cut(1)
    world.start(name, chance)
    world.begin_batch(name, {0: 3})
    world.finish(name, chance)
    world.record(name)
    hole = 4
    assert min(offset for offset in sink.rows if offset > 0) >= hole
    sink.expire(hole)
    world.kill()
    sink.synced = hole
    sink.cut(hole)
    settle(world, chance)
    return problems(world)


def writing_again_is_interrupted(without: Clause | None) -> list[str]:
    """Compaction takes an old value of a key, so its changes are written again, the old value first. The run
    ends before the newer value follows: both are there then, in the wrong order.
    """
    chance = Random(0)
    world = World(without, queries=[TABLE])
    name = TABLE.name
    sink = world.log.make("t", 1).partitions[0]
    for value in ("1", "2"):
        world.produce("users", "a", value)
    world.start(name, chance)
    world.begin_batch(name, {0: 2})
    world.land(name, chance)
    world.land(name, chance)
    world.kill()
    sink.sync()
    sink.compact()
    world.start(name, chance)
    world.begin_batch(name, {0: 1})
    world.land(name, chance)
    world.kill()
    settle(world, chance)
    return problems(world)


def the_next_run_comes_less_far(without: Clause | None) -> list[str]:
    """A run writes four rows and dies without a commit. The next one skips them, but commits only a part of
    the way, twice, before it dies, too.
    """
    chance = Random(0)
    world = World(without, queries=[OTHER])
    name = OTHER.name
    for _ in range(4):
        world.produce("events", "a", "1", 0)
    world.start(name, chance)
    world.begin_batch(name, {0: 4})
    for _ in range(4):
        world.land(name, chance)
    world.kill()
    world.start(name, chance)
    for _ in range(2):
        world.begin_batch(name, {0: 1})
        world.finish(name, chance)
        world.record(name)
    world.kill()
    settle(world, chance)
    return problems(world)


def the_sink_is_recreated_under_a_run(without: Clause | None) -> list[str]:
    """The run goes on writing to the new topic, as its producer goes by names, and commits."""
    chance = Random(0)
    world = World(without, queries=[OTHER])
    name = OTHER.name
    for _ in range(4):
        world.produce("events", "a", "1", 0)
    world.start(name, chance)
    world.begin_batch(name, {0: 2})
    world.finish(name, chance)
    world.recreate("c", 2)
    world.begin_batch(name, {0: 1})
    world.finish(name, chance)
    world.record(name)
    world.kill()
    settle(world, chance)
    return problems(world)


def the_sink_of_a_count_comes_back_shorter(without: Clause | None) -> list[str]:
    chance = Random(0)
    world = World(without, queries=[])
    world.produce("c", "a", "1", 0)
    world.count.start(chance)
    world.count.begin_batch({0: 1})
    world.count.finish(chance)
    world.kill()
    for partition in world.log.topics["counts"].partitions:
        partition.cut(0)
    settle(world, chance)
    return problems(world)


def compaction_removes_the_hole(without: Clause | None) -> list[str]:
    """A commit counts on a row that a power cut takes. Somebody else writes behind the hole, and compaction
    removes the hole, so that there is a gap as after the compaction of records.
    """
    chance = Random(0)
    world = World(without, queries=[TABLE])
    name = TABLE.name
    sink = world.log.make("t", 1).partitions[0]
    for key in ("a", "b"):
        world.produce("users", key, "1")
    world.start(name, chance)
    world.begin_batch(name, {0: 2, 1: 2})
    world.finish(name, chance)
    world.record(name)
    world.kill()
    sink.cut(1)
    world.produce("t", "other", "1", 0)
    sink.sync()
    sink.compact()
    settle(world, chance)
    return problems(world)


SCENARIOS: Mapping[Clause, Callable[[Clause | None], list[str]]] = {
    Clause.CUT_OFF_NEWER: unusable_commits_would_count_again,
    Clause.GAPS_WITHIN_AN_EPOCH: compaction_removes_the_hole,
    Clause.KEEP_FROM_UNTIL_PASSED: the_next_run_comes_less_far,
    Clause.IDS_OF_THE_START: the_sink_is_recreated_under_a_run,
    Clause.STATE_REWINDS: the_sink_of_a_count_comes_back_shorter,
    Clause.TABLES_LOOK_AT_THE_ORDER: writing_again_is_interrupted,
}
