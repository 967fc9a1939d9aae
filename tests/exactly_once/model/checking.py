"""What must be true when everything has run to its end: nothing lost, nothing double.

Every record that a source has now has given each of its rows once to the sink as it is now. Rows whose
parents a power cut took back, or retention, may be there, once. A table has the newest value of each key.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.exactly_once.model.lake import BAD, LETTERS, TOPIC
from tests.exactly_once.model.log import Row
from tests.exactly_once.model.queries import Query
from tests.exactly_once.model.world import World

_EVERYTHING = 1 << 30


def settle(world: World, chance: Random) -> None:
    """No more faults: all queries run until there is nothing left to do."""
    for _ in range(100):
        moved = False
        for name in world.queries:
            if name in world.runs and world.is_outdated(name):
                world.fail(name)
            if name not in world.runs:
                world.start(name, chance)
            world.finish(name, chance)
            source = world.log.topics[world.queries[name].source]
            moved |= world.begin_batch(name, dict.fromkeys(range(len(source.partitions)), _EVERYTHING))
            world.finish(name, chance)
            world.record(name)
        moved |= _count(world, chance)
        moved |= _fill_lake(world, chance)
        if not moved:
            return
    raise AssertionError("it never ends")


def _count(world: World, chance: Random) -> bool:
    count = world.count
    if not world.has_count:
        return False
    if count.is_running and count.is_outdated():
        count.kill()
    if not count.is_running:
        count.start(chance)
    count.finish(chance)
    moved = count.begin_batch(dict.fromkeys(range(len(world.log.topics["c"].partitions)), _EVERYTHING))
    count.finish(chance)
    return moved


def _fill_lake(world: World, chance: Random) -> bool:
    lake = world.lake
    if lake.run is None or lake.is_outdated():
        lake.start(chance)
    return lake.batch(dict.fromkeys(range(len(world.log.topics["c"].partitions)), _EVERYTHING), chance)


def problems(world: World) -> list[str]:
    found = [
        problem
        for query in world.queries.values()
        for problem in (_of_table(world, query) if query.is_table else _of_stream(world, query))
    ]
    return found + (_of_count(world) if world.has_count else []) + _of_lake(world)


def _of_lake(world: World) -> list[str]:
    """Every record of the topic is in the table, or among the dead letters if it is bad; nothing is double.

    A dead letter is known by the place of its record, so that a topic that was recreated has them anew.
    """
    topic = world.log.topics[TOPIC]
    rows = Counter((row.writer, row.lineage) for row in world.lake.rows)
    letters = Counter(row.source for row in world.log.topics[LETTERS].seen_rows())
    lost = []
    for number, partition in enumerate(topic.partitions):
        for offset, row in partition.read(0, partition.stable_end):
            place = f"{topic.id}/{number}/{offset}/0"
            is_bad = row.value == BAD
            is_there = letters[f"lake/{place}"] if is_bad else rows[row.writer, row.lineage or f"/{place}"]
            if not is_there:
                lost.append(f"lake: lacks {row.lineage or place}")
    double = [
        f"lake: {each} {count} times"
        for counted in (rows, letters)
        for each, count in counted.items()
        if count > 1
    ]
    return lost + double


def _of_count(world: World) -> list[str]:
    """The newest count of each key is right, and no row is there twice."""
    rows = world.log.topics["counts"].rows()
    double = [
        f"count: {source} {count} times"
        for source, count in Counter(row.source for row in rows).items()
        if count > 1
    ]
    newest = {row.key: int(row.value) for row in rows}
    right = Counter(row.key for row in world.log.topics["c"].rows())
    wrong = [
        f"count: {newest.get(key)} of {key}, not {number}"
        for key, number in right.items()
        if newest.get(key) != number
    ]
    return double + wrong


def _of_stream(world: World, query: Query) -> list[str]:
    found: Counter[tuple[str, str]] = Counter()
    for sink in query.sinks:
        found.update(
            (sink, row.lineage) for row in world.log.topics[sink].seen_rows() if row.writer == query.name
        )
    expected = {(sink, row.lineage) for sink, row in _expected(world, query)}
    # Whoever deletes a topic of dead letters wants to be rid of them.
    emptied = world.recreated & set(query.sinks[1:])
    lost = sorted(
        f"{query.name}: {sink} lacks {lineage}"
        for sink, lineage in expected - found.keys()
        if sink not in emptied
    )
    double = sorted(
        f"{query.name}: {sink} has {lineage} {count} times"
        for (sink, lineage), count in found.items()
        if count > 1
    )
    return lost + double


def _of_table(world: World, query: Query) -> list[str]:
    """The newest row of each key is of the newest record that has been."""
    newest: dict[str, Row] = {row.key: row for _, row in _expected(world, query)}
    there = {
        row.key: row
        for partition in world.log.topics[query.sinks[0]].partitions
        for _, row in partition.read(0)
    }
    return [
        f"{query.name}: {row.value} of {key} is not its newest value, which is {there.get(key)}"
        for key, row in newest.items()
        if key not in there or int(there[key].value) < int(row.value)
    ]


def _expected(world: World, query: Query) -> list[tuple[str, Row]]:
    source = world.log.topics[query.source]
    return [
        (sink, derived)
        for number, partition in enumerate(source.partitions)
        for offset, row in partition.read(0, partition.stable_end)
        for sink, _, derived in query.derived(row, (world.id_of(source), number, offset))
    ]
