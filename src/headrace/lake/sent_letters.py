"""Which dead letters are sent already, and what the commits say about where they are.

When a run starts, it reads the dead-letter topic from where the table's commit says, and so knows the dead
letters that an earlier run sent, but did not get to commit; it does not send them again, and does not write
their records to the table. Until the positions have passed the last of those, its commits keep saying to read
from there: the next run would not find them otherwise.

Pure: knows neither the topic nor Spark.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from headrace.lake.positions import Offsets, Progress, Reached

# Partition and offset of the record that a dead letter is about.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLetters:
    """`places`: records from the positions on that have a dead letter already. `ends`: where the dead-letter
    topic ended when they were read, or after the newest dead letter of this run.
    """

    places: frozenset[Place]
    ends: Reached

    def noted(self, progress: Progress) -> Progress:
        """What the next commit says. To be asked after its dead letters were sent."""
        positions = progress.positions.offsets
        has_passed = all(offset < positions.get(partition, 0) for partition, offset in self.places)
        return progress.with_dead_letters(
            begin=self.ends if has_passed else progress.dead_letters_from, end=self.ends
        )

    def from_positions(self, positions: Offsets) -> SentLetters:
        """Without those of records that were read."""
        left = frozenset(place for place in self.places if place[1] >= positions.get(place[0], 0))
        return dataclasses.replace(self, places=left)
