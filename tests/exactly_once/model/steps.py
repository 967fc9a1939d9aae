"""Everything that can happen, as steps with a name: chosen by Hypothesis, or at random by a seed.

A step that makes no sense at the moment does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tests.exactly_once.model.checking import problems, settle
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.queries import (
    FIRST,
    KINDS,
    OTHER,
    SECOND,
    STATELESS,
    TABLE,
    TWIN,
    Query,
)
from tests.exactly_once.model.world import World

_KEYS = "ab"


# Queries that run together. A few at a time meet more of what matters in the same number of steps.
CHAIN = (FIRST, SECOND)
GROUPS: Sequence[Sequence[Query]] = ((FIRST,), (OTHER, TWIN), (TABLE,), CHAIN, STATELESS)


class Steps:
    def __init__(
        self,
        without: Clause | None = None,
        *,
        queries: Sequence[Query] = STATELESS,
        has_count: bool = True,
    ) -> None:
        self.world = World(without, queries=queries, has_count=has_count)
        self._values = 0

    def take(self, name: str, chance: Random) -> None:
        STEPS[name](self, chance)

    def problems(self) -> list[str]:
        """What is wrong when all queries have come to the end."""
        self._commit_transactions(Random(0))
        settle(self.world, Random(0))
        return problems(self.world)

    def _produce(self, chance: Random) -> None:
        key, partition = (
            chance.choice(_KEYS),
            chance.randrange(len(self.world.log.topics["events"].partitions)),
        )
        for _ in range(chance.randint(1, 4)):
            self.world.produce("events", key, chance.choice(KINDS), partition)

    def _produce_to_table(self, chance: Random) -> None:
        for _ in range(chance.randint(1, 3)):
            self._values += 1
            self.world.produce("users", chance.choice(_KEYS), str(self._values))

    def _start(self, chance: Random) -> None:
        name = self._any_query(chance)
        if name in self.world.runs and self.world.is_outdated(name):
            self.world.fail(name)
        if name not in self.world.runs:
            self.world.start(name, chance)

    def _begin_batch(self, chance: Random) -> None:
        name = self._any_run(chance)
        if name:
            self.world.begin_batch(name, {number: chance.randint(0, 4) for number in range(4)})
            for _ in range(chance.randint(0, 3)):
                self.world.land(name, chance)

    def _finish(self, chance: Random) -> None:
        name = self._any_run(chance)
        if name:
            self.world.finish(name, chance)

    def _record(self, chance: Random) -> None:
        name = self._any_run(chance)
        if name:
            self.world.record(name)

    def _expire(self, chance: Random) -> None:
        name = self._any_run(chance)
        if name:
            self.world.expire(name, chance)

    def _stop(self, chance: Random) -> None:
        name = self._any_run(chance)
        if name:
            self.world.stop(name, chance)

    def _land_late(self, chance: Random) -> None:
        self.world.land_late(self._any_query(chance), chance)

    def _kill(self, _chance: Random) -> None:
        self.world.kill()

    def _cut_power(self, chance: Random) -> None:
        self.world.cut_power(chance)

    def _sync(self, chance: Random) -> None:
        self.world.sync(chance)

    def _recreate(self, chance: Random) -> None:
        self.world.recreate(self._any_topic(chance), chance.randint(2, 3))

    def _add_partitions(self, chance: Random) -> None:
        topic = self.world.log.topics[self._any_topic(chance)]
        # The keys of a table would move, and there is no order between partitions.
        if len(topic.partitions) < 4 and topic.name not in ("users", "t", "counts"):
            topic.add_partitions(1)

    def _expire_source(self, chance: Random) -> None:
        """Retention takes the oldest records of a source, read or not."""
        partition = chance.choice(self.world.log.topics["events"].partitions)
        partition.expire(chance.randint(partition.start, partition.end))

    def _open_transaction(self, chance: Random) -> None:
        """A record of another producer, whose transaction is open."""
        partition = self.world.log.topics["c"].partitions[0]
        if partition.stable is None:
            partition.stable = partition.end
            self.world.produce("c", chance.choice(_KEYS), "1", 0)

    def _commit_transactions(self, _chance: Random) -> None:
        for partition in self.world.log.topics["c"].partitions:
            partition.stable = None

    def _compact(self, _chance: Random) -> None:
        for partition in self.world.log.topics["t"].partitions:
            partition.compact()

    def _start_count(self, chance: Random) -> None:
        count = self.world.count
        if not self.world.has_count:
            return
        if count.is_running and count.is_outdated():
            count.kill()
        if not count.is_running:
            count.start(chance)

    def _run_count(self, chance: Random) -> None:
        count = self.world.count
        if count.is_running and not count.is_outdated():
            count.begin_batch({number: chance.randint(0, 4) for number in range(4)})
            for _ in range(chance.randint(0, 2)):
                count.land(chance)
            if chance.random() < 0.5:
                count.finish(chance)

    def _start_lake(self, chance: Random) -> None:
        lake = self.world.lake
        if lake.run is None or lake.is_outdated():
            lake.start(chance)

    def _run_lake(self, chance: Random) -> None:
        lake = self.world.lake
        if lake.run is not None and not lake.is_outdated():
            sizes = {number: chance.randint(0, 4) for number in range(4)}
            lake.batch(sizes, chance, dies=chance.random() < 0.3)

    def _any_query(self, chance: Random) -> str:
        return chance.choice(list(self.world.queries))

    def _any_run(self, chance: Random) -> str:
        return chance.choice(list(self.world.runs)) if self.world.runs else ""

    def _any_topic(self, chance: Random) -> str:
        return chance.choice(["events", "users", "counts", *self.world.sinks()])


STEPS: Mapping[str, Callable[[Steps, Random], None]] = {
    "produce": Steps._produce,
    "produce to table": Steps._produce_to_table,
    "start": Steps._start,
    "begin a batch": Steps._begin_batch,
    "finish a batch": Steps._finish,
    "record": Steps._record,
    "expire": Steps._expire,
    "stop": Steps._stop,
    "land late": Steps._land_late,
    "kill": Steps._kill,
    "cut power": Steps._cut_power,
    "sync": Steps._sync,
    "recreate": Steps._recreate,
    "add partitions": Steps._add_partitions,
    "expire source": Steps._expire_source,
    "open transaction": Steps._open_transaction,
    "commit transactions": Steps._commit_transactions,
    "compact": Steps._compact,
    "start the count": Steps._start_count,
    "run the count": Steps._run_count,
    "start the lake": Steps._start_lake,
    "run the lake": Steps._run_lake,
}
# How often each is taken, compared with the others.
WEIGHTS: Mapping[str, float] = {
    "produce": 4,
    "produce to table": 2,
    "start": 7,
    "begin a batch": 9,
    "finish a batch": 5,
    "record": 5,
    "expire": 0.7,
    "stop": 0.7,
    "land late": 2,
    "kill": 1,
    "cut power": 1,
    "sync": 1,
    "recreate": 0.4,
    "add partitions": 0.6,
    "expire source": 0.2,
    "open transaction": 0.6,
    "commit transactions": 0.4,
    "compact": 0.5,
    "start the count": 2,
    "run the count": 4,
    "start the lake": 2,
    "run the lake": 4,
}


def walk(seed: int, without: Clause | None = None) -> list[str]:
    """What is wrong after some steps at random. Each walk has likings of its own."""
    chance = Random(seed)
    steps = Steps(without, queries=chance.choice(GROUPS), has_count=chance.random() < 0.5)
    names = list(WEIGHTS)
    weights = [weight * chance.choice((0, 0.3, 1, 3)) for weight in WEIGHTS.values()]
    for name in chance.choices(names, weights, k=chance.randint(20, 80)):
        steps.take(name, chance)
    return steps.problems()
