"""Where the embedded broker answers otherwise than Apache Kafka 4.3.1, on purpose, and why.

A difference is accepted for one place in the answers: scenario, versions by wildcard, and the path in the
transcript. Every other difference fails `test_same_answers.py`; an entry that no longer occurs fails it too.
`docs/compatibility.md` lists these reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedDifference:
    """`place` is `<scenario>/v<version>/<label>/<path in the answer>`, with wildcards."""

    place: str
    reason: str

    def covers(self, place: str) -> bool:
        return fnmatchcase(place, self.place)


ACCEPTED: tuple[AcceptedDifference, ...] = ()
