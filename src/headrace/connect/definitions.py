"""Definitions of settings, and what a value given for one becomes: Kafka's ConfigDef as data.

A `Definition` says everything about one setting that the REST API tells its clients: type, default,
importance, documentation, group, order, width, display name. Invariants: texts of errors are Kafka's; a value
that cannot be read has no value and one error; values are shown as text, as Kafka shows them. Never decides
which settings belong to a connector: that is `validation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
Importance = Literal["HIGH", "MEDIUM", "LOW"]
Width = Literal["NONE", "SHORT", "MEDIUM", "LONG"]
# Says what is wrong with a value of the setting's type; empty if nothing is.
Validator = Callable[[Any], str]


class _Required:
    """Stands for the default of a setting that has none."""


REQUIRED: Final = _Required()
HIDDEN: Final = "[hidden]"
_LIMITS: Final = {"SHORT": 2**15, "INT": 2**31, "LONG": 2**63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One setting. `recommended` are values that a user interface may offer."""

    name: str
    kind: Kind
    documentation: str
    default: Any = REQUIRED
    importance: Importance = "MEDIUM"
    group: str | None = None
    order_in_group: int = -1
    width: Width = "NONE"
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    validator: Validator | None = None
    recommended: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def as_json(self) -> dict[str, Any]:
        """As `GET /connector-plugins/{plugin}/config` shows it."""
        return {
            "name": self.name,
            "type": self.kind,
            "required": self.is_required,
            "default_value": None if self.is_required else shown(self.default),
            "importance": self.importance,
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order_in_group,
            "width": self.width,
            "display_name": self.display_name or self.name,
            "dependents": list(self.dependents),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A setting's value, of the type that its definition says, or what is wrong with what was given."""

    value: Any = None
    errors: tuple[str, ...] = ()


def read_setting(definition: Definition, config: Mapping[str, str | None]) -> Reading:
    """The value of the setting in a configuration."""
    name = definition.name
    if name not in config:
        if definition.is_required:
            return Reading(errors=(f'Missing required configuration "{name}" which has no default value.',))
        return Reading(value=definition.default)
    given = config[name]
    try:
        value = _read(definition.kind, given)
    except ValueError as error:
        return Reading(errors=(f"Invalid value {given} for configuration {name}: {error}",))
    wrong = definition.validator(value) if definition.validator is not None else ""
    if not wrong:
        return Reading(value=value)
    given_text = "null" if value is None else shown_of(definition, value)
    text = f"Invalid value {given_text} for configuration {name}: {wrong}"
    # A class that does not exist is no value.
    return Reading(value=None if definition.kind == "CLASS" else value, errors=(text,))


def shown_of(definition: Definition, value: Any) -> str | None:
    """A value of this setting as Kafka shows it: passwords are hidden."""
    return HIDDEN if definition.kind == "PASSWORD" and value else shown(value)


def shown(value: Any) -> str | None:
    """A value as Kafka shows it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(value)
    return str(value)


def _read(kind: Kind, given: str | None) -> Any:
    if given is None:
        return None
    text = given.strip()
    if kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return text.lower() == "true"
    if kind in _LIMITS:
        try:
            number = int(text)
        except ValueError as error:
            raise ValueError(f"Not a number of type {kind}") from error
        if not -_LIMITS[kind] <= number < _LIMITS[kind]:
            raise ValueError(f"Not a number of type {kind}")
        return number
    if kind == "DOUBLE":
        try:
            return float(text)
        except ValueError as error:
            raise ValueError(f"Not a number of type {kind}") from error
    if kind == "LIST":
        return [each.strip() for each in text.split(",")] if text else []
    return text


def at_least(least: float) -> Validator:
    def check(value: Any) -> str:
        if value is None:
            return "Value must be non-null"
        return "" if value >= least else f"Value must be at least {least}"

    return check


def between(least: float, most: float) -> Validator:
    def check(value: Any) -> str:
        wrong = at_least(least)(value)
        return wrong or ("" if value <= most else f"Value must be no more than {most}")

    return check


def one_of(*choices: str) -> Validator:
    """Regardless of case, as Kafka's enumerations are."""

    def check(value: Any) -> str:
        if value is not None and value.lower() in (choice.lower() for choice in choices):
            return ""
        return f"String must be one of: {', '.join(choices)}"

    return check


def only(value: Any, reason: str) -> Validator:
    """For a setting that Kafka has and of which this worker knows one value."""
    return lambda given: "" if given == value else reason
