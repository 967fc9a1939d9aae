"""Checks of config values beyond their type, as data, with Kafka's messages.

Invariant: a check never changes the value. Never parses text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.broker.configs.values import ConfigValue, InvalidValueError, in_message, invalid

_THROTTLED_REPLICAS: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class Validator(Protocol):
    """One check. `str(validator)` says what is valid, for the documentation."""

    def check(self, name: str, value: ConfigValue) -> None:
        """Raises InvalidValueError."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `least` to `most`, inclusive; no upper limit if `most` is None."""

    least: int
    most: int | None = None

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, int | float)
        if value < self.least:
            raise invalid(name, in_message(value), f"Value must be at least {self.least}")
        if self.most is not None and value > self.most:
            raise invalid(name, in_message(value), f"Value must be no more than {self.most}")

    def __str__(self) -> str:
        return f"[{self.least},...]" if self.most is None else f"[{self.least},...,{self.most}]"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words, in exactly this spelling."""

    words: tuple[str, ...]

    def check(self, name: str, value: ConfigValue) -> None:
        if value not in self.words:
            raise invalid(name, value, f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class OneOfAnyCase:
    """One of these words, ignoring case."""

    words: tuple[str, ...]

    def check(self, name: str, value: ConfigValue) -> None:
        if str(value).upper() not in self.words:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of these words, or of any words if none are given. The list may be empty, its items may not."""

    words: tuple[str, ...] = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        if "" in value:
            raise InvalidValueError(f"Configuration '{name}' values must not be empty.")
        if self.words:
            for item in value:
                OneOf(self.words).check(name, item)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


@dataclass(frozen=True, slots=True)
class GzipLevel:
    """A level of gzip, or -1 for the library's default."""

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, int)
        if value != -1 and not 1 <= value <= 9:
            raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or replicas as partition:broker. Has no effect on one node, but is checked as in Kafka."""

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        if value != ("*",) and not all(re.fullmatch("[0-9]+:[0-9]+", item) for item in value):
            reason = (
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                f"{_THROTTLED_REPLICAS}"
            )
            raise invalid(name, in_message(value), reason)

    def __str__(self) -> str:
        return _THROTTLED_REPLICAS


@dataclass(frozen=True, slots=True)
class OneNode:
    """A number of replicas, which must be 1 on one node."""

    def check(self, name: str, value: ConfigValue) -> None:
        if value != 1:
            reason = "the embedded broker is one node; for replicas start Apache Kafka with --engine kafka"
            raise invalid(name, value, reason)

    def __str__(self) -> str:
        return "1"
