"""Properties and variables from SET and DEFINE: for one request, or as long as a shell resends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = "ksql.streams."
# Properties of the server that a session cannot change, as in ksqlDB.
PROHIBITED: Final = frozenset(
    {
        "application.id",
        "bootstrap.servers",
        "ksql.service.id",
        "ksql.schema.registry.url",
        "listeners",
        "processing.guarantee",
    }
)


@dataclass(slots=True, kw_only=True)
class Session:
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, value: str) -> None:
        self.properties[bare(name)] = value

    def unset(self, name: str) -> None:
        self.properties.pop(bare(name), None)

    @property
    def from_beginning(self) -> bool:
        """Whether queries start with the first record of their sources; by default with the next, as in
        ksqlDB.
        """
        return self.properties.get("auto.offset.reset", "latest") == "earliest"


def bare(name: str) -> str:
    """`ksql.streams.auto.offset.reset` and `auto.offset.reset` are the same."""
    return name.removeprefix(PREFIX)


def is_prohibited(name: str) -> bool:
    return bare(name) in PROHIBITED
