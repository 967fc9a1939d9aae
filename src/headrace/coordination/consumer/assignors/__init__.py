"""Server-side assignors (KIP-848): pure functions from subscriptions to who gets which partition."""

from collections.abc import Mapping
from typing import Final

from headrace.coordination.consumer.assignors import range as range_assignor
from headrace.coordination.consumer.assignors import uniform as uniform_assignor
from headrace.coordination.consumer.assignors.subscriptions import Assignor, Partitions, Subscriber

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": uniform_assignor.assign,
    "range": range_assignor.assign,
}
"""By name, the default first, as in `group.consumer.assignors`."""

DEFAULT_ASSIGNOR: Final = "uniform"

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignor", "Partitions", "Subscriber"]
