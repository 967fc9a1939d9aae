"""Which process of `make test` runs which tests, and in which order.

Tests that share something stay together: those of a file, for its fixtures, and those of the folder that
shares a platform. Apart from that, each process takes what suits it as long as there is any: starting Spark
or Apache Kafka, and running them until their code is compiled, takes longer than most tests do. Beside each
other, a process that waits (for clients and other processes), two that start much, and one for the many short
tests use two cores best.

A file that has a wrong kind here costs time, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_KILLS: Final = "tests/end_to_end/test_kills.py"
_PLATFORM: Final = "tests/end_to_end/"
_STATEMENT_CASES: Final = "tests/pipeline/test_statement_cases.py::"
# By kind: what the names of its scopes begin with, the longest scopes first. All others are `plain`. The
# first kind that fits counts.
_KINDS: Final = {
    "kills": (_KILLS,),
    "platform": (_PLATFORM, "tests/acceptance/"),
    "spark": (
        "tests/pipeline/functions/",
        "tests/pipeline/plans/",
        "tests/pipeline/stateful/",
        "tests/pipeline/test_statement_cases",
        "tests/pipeline/",
    ),
    "wait": (
        # With Apache Kafka.
        "tests/conformance/",
        "tests/broker/test_configs_against_kafka",
        "tests/client/test_batches",
        "tests/coordination/test_kafka_agrees",
        "tests/query/test_partition_sizes",
        "tests/registry/test_registry",
        "tests/engines/",
        # Without.
        "tests/load/",
        # With an S3 server.
        "tests/lake/test_delta_log",
        "tests/lake/test_repairing",
        "tests/lake/test_s3_faults",
        "tests/assembly/",
        "tests/broker/test_",
        "tests/http/",
        "tests/connect/test_worker",
        "tests/connect/test_standalone",
    ),
}
_PLAIN: Final = "plain"
# What each process prefers; a process more takes what the first of them does.
_PREFERENCES: Final = (
    ("platform", "spark", _PLAIN, "wait", "kills"),
    ("kills", "spark", _PLAIN, "wait", "platform"),
    ("wait", _PLAIN, "spark", "kills", "platform"),
    (_PLAIN, "wait", "spark", "kills", "platform"),
)


def scope_of(nodeid: str) -> str:
    """What stays together. The statement cases are many: each file of theirs is a scope."""
    if nodeid.startswith(_PLATFORM) and not nodeid.startswith(_KILLS):
        return _PLATFORM
    return nodeid.partition("-" if nodeid.startswith(_STATEMENT_CASES) else "::")[0]


def kind_of(scope: str) -> str:
    return next((kind for kind, starts in _KINDS.items() if scope.startswith(starts)), _PLAIN)


def choose(scopes: Iterable[str], process: int) -> str:
    """What a process with this number does next."""
    preferred = _PREFERENCES[process % len(_PREFERENCES)]
    return min(scopes, key=lambda scope: preferred.index(kind_of(scope)))


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Scope by scope, the longest of each kind first."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope_of(item.nodeid), []).append(item)
    return list(chain.from_iterable(scopes[scope] for scope in sorted(scopes, key=_rank)))


def _rank(scope: str) -> tuple[int, int]:
    """The place of its kind, and its place in that."""
    for place, starts in enumerate(_KINDS.values()):
        for within, start in enumerate(starts):
            if scope.startswith(start):
                return place, within
    return len(_KINDS), 0


class SharedWork(LoadScopeScheduling):
    """Gives a process that has next to nothing left the scope that suits it best."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = choose(self.workqueue, self.nodes.index(node))
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
