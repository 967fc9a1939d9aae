"""Stories that are too long to be met by chance, each for the clause of the rule that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.exactly_once.model.checking import problems, settle
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.queries import OTHER
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


SCENARIOS: Mapping[Clause, Callable[[Clause | None], list[str]]] = {
    Clause.CUT_OFF_NEWER: unusable_commits_would_count_again
}
