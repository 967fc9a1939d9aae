"""The four operations of IncrementalAlterConfigs (KIP-339), on texts by name.

Invariants: the given texts are not changed; `apply` returns a new mapping. Never checks values, except that
only lists can be appended to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from headrace.broker.configs.definition import Config
from headrace.broker.configs.values import ConfigType


class Kind(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`value` is None for DELETE only."""

    name: str
    kind: Kind
    value: str | None = None


class NotAListError(ValueError):
    """APPEND or SUBTRACT on a config that is missing or not a list."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation.name)
        self.operation = operation


def apply(
    operations: Iterable[Operation], texts: Mapping[str, str], table: Mapping[str, Config]
) -> dict[str, str]:
    """The texts after the operations. Raises NotAListError."""
    result = dict(texts)
    for each in operations:
        if each.kind is Kind.DELETE:
            result.pop(each.name, None)
        elif each.kind is Kind.SET:
            result[each.name] = each.value or ""
        else:
            config = table.get(each.name)
            if config is None or config.type is not ConfigType.LIST:
                raise NotAListError(each)
            items = _items(result.get(each.name, config.default_text or ""))
            named = _items(each.value or "")
            if each.kind is Kind.APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            result[each.name] = ",".join(items)
    return result


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]
