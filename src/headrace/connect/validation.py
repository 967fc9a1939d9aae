"""Validates the configuration of a connector: every setting with its value, its errors, and how many they
are.

Invariants: the answer has all settings of the plugin, in the order of the definitions, whatever was given;
texts and counts are Kafka's, except for what only this worker refuses (`common_settings.py`). Never starts
anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import re2

from headrace.connect.common_settings import Defaults, settings_of
from headrace.connect.definitions import Definition, Reading, read_setting, shown_of
from headrace.connect.overrides import PREFIXES, refused_overrides
from headrace.connect.plugins import Plugin
from headrace.core.errors import HeadraceError

# Beginnings of settings that belong to a definition without being one.
_DYNAMIC: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "topic.creation.default.",
    *PREFIXES,
)
# So alike that it is a slip.
_CLOSE: Final = 0.85
_NULL: Final = "Null value can not be supplied as the configuration value."

GivenConfig = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedSetting:
    definition: Definition
    value: str | None
    errors: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        value = {
            "name": self.definition.name,
            "value": self.value,
            "recommended_values": list(self.definition.recommended),
            "errors": list(self.errors),
            "visible": True,
        }
        return {"definition": self.definition.as_json(), "value": value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What is known about a configuration."""

    name: str
    settings: tuple[ValidatedSetting, ...]

    @property
    def errors(self) -> list[str]:
        return [error for setting in self.settings for error in setting.errors]

    def as_json(self) -> dict[str, Any]:
        groups = dict.fromkeys(each.definition.group for each in self.settings if each.definition.group)
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": list(groups),
            "configs": [setting.as_json() for setting in self.settings],
        }

    def raise_if_wrong(self) -> None:
        """Raises connector_invalid."""
        errors = self.errors
        if errors:
            raise HeadraceError(
                "connector_invalid",
                f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
                + "\n".join(errors)
                + "\nYou can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )


def validate(plugin: Plugin, config: GivenConfig, defaults: Defaults) -> Validation:
    """Check a configuration for connectors of this plugin."""
    definitions = settings_of(plugin, defaults)
    read = {each.name: read_setting(each, config) for each in definitions}
    errors: dict[str, list[str]] = {name: list(reading.errors) for name, reading in read.items()}
    for name, value in config.items():
        if value is None:
            errors.setdefault(name, []).append(_NULL)
    if plugin.kind == "sink":
        _check_topics(read, errors)
    else:
        _check_new_topics(config, errors)
    for name, reason in refused_overrides(config).items():
        errors.setdefault(name, []).append(reason)
    if plugin.refuses_unknown:
        for name in unknown_settings(plugin, config, definitions):
            errors.setdefault(name, []).append(_unknown(name, [each.name for each in definitions]))
    given = {name: value for name, value in config.items() if value is not None}
    if plugin.checks_all or not any(errors.values()):
        for name, more in plugin.check(given).items():
            # A setting that cannot be read has its reason already.
            if not errors.get(name):
                errors.setdefault(name, []).extend(more)
    known = tuple(
        ValidatedSetting(
            definition=each, value=shown_of(each, read[each.name].value), errors=tuple(errors[each.name])
        )
        for each in definitions
    )
    others = tuple(
        ValidatedSetting(definition=_undefined(name), value=config.get(name), errors=tuple(found))
        for name, found in errors.items()
        if name not in read and found
    )
    return Validation(name=config.get("connector.class") or plugin.class_name, settings=(*known, *others))


def unknown_settings(plugin: Plugin, config: Iterable[str], definitions: tuple[Definition, ...]) -> list[str]:
    known = {each.name for each in definitions}
    return [
        name
        for name in config
        if name not in known and not name.startswith((*_DYNAMIC, *plugin.dynamic_prefixes))
    ]


def _unknown(name: str, known: list[str]) -> str:
    longer = [each for each in known if each.startswith(f"{name}.")]
    close = longer or get_close_matches(name, known, n=1, cutoff=_CLOSE)
    return f"The connector has no setting {name}" + (f". Did you mean {close[0]}?" if close else "")


def _undefined(name: str) -> Definition:
    return Definition(name=name, kind="STRING", default=None, importance="LOW", documentation="")


def _check_new_topics(config: GivenConfig, errors: dict[str, list[str]]) -> None:
    for name in ("topic.creation.default.partitions", "topic.creation.default.replication.factor"):
        given = config.get(name)
        if given is not None and not re.fullmatch(r"-1|[1-9]\d{0,8}", given.strip()):
            reason = "Value must be -1, for the log's default, or at least 1"
            errors.setdefault(name, []).append(f"Invalid value {given} for configuration {name}: {reason}")


def _check_topics(read: Mapping[str, Reading], errors: dict[str, list[str]]) -> None:
    topics, expression = read["topics"].value or [], read["topics.regex"].value or ""
    dead_letters = read["errors.deadletterqueue.topic.name"].value
    if topics and expression:
        reason = "topics and topics.regex are mutually exclusive options, but both are set."
        errors["topics"].append(reason)
        errors["topics.regex"].append(reason)
    elif not topics and not expression:
        errors["topics"].append("Must configure one of topics or topics.regex")
        errors["topics.regex"].append("Must configure one of topics or topics.regex")
    if dead_letters and dead_letters in topics:
        errors["topics"].append(
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics "
            f"('topics=[{', '.join(topics)}]') consumed by the connector"
        )
    if expression:
        try:
            matches = re2.compile(expression).fullmatch(dead_letters or "")
        except re2.error as error:
            errors["topics.regex"].append(
                f"Invalid value {expression} for configuration topics.regex: {error}"
            )
        else:
            if dead_letters and matches:
                errors["topics.regex"].append(
                    f"The DLQ topic '{dead_letters}' may not be matched by the regular expression "
                    f"('topics.regex={expression}') of the connector"
                )
