"""The settings that every connector has, and those that every source and every sink has, as Kafka names them.

Settings of Kafka's that this worker cannot honour take only their default: another value is refused with the
reason, not ignored. Never holds settings of single connectors.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.connect.converters import HEADER_CONVERTERS, SIMPLE_HEADER_CONVERTER, full_name
from headrace.connect.definitions import Definition, Validator, at_least, between, one_of, only
from headrace.connect.plugins import Config, Plugin

COMMON: Final = "Common"
_TRANSFORMS: Final = "Transforms"
_PREDICATES: Final = "Predicates"
_ERRORS: Final = "Error Handling"
_TOPIC_CREATION: Final = "Topic Creation"
_EXACTLY_ONCE: Final = "Exactly Once Support"
_OFFSETS_TOPIC: Final = "offsets.topic"
_LONGEST_NAME: Final = 255
# Each is a thread with clients of its own.
_MOST_TASKS: Final = 1000
_NO_TRANSFORMS: Final = "This connector does not support transformations here"

# What a worker says where a connector names no converter: class and settings.
Defaults = dict[str, str]


def settings_of(plugin: Plugin, defaults: Defaults) -> tuple[Definition, ...]:
    """All settings of a plugin's connectors. `defaults` are the converters of the worker."""
    specific = _SINK if plugin.kind == "sink" else _SOURCE
    return (*_common(plugin, {**defaults, **plugin.default_converters}), *specific, *plugin.settings)


def most_tasks(config: Config) -> int:
    """How many tasks a connector may have, also one whose configuration nobody has validated."""
    return min(int(config.get("tasks.max", "1")), _MOST_TASKS)


def _common(plugin: Plugin, defaults: Defaults) -> tuple[Definition, ...]:
    header = defaults.get("header.converter", SIMPLE_HEADER_CONVERTER)
    unsupported = None if plugin.takes_transforms else only([], _NO_TRANSFORMS)
    return (
        Definition(
            name="name",
            kind="STRING",
            importance="HIGH",
            documentation="Name of the connector, unique among all connectors.",
            group=COMMON,
            order_in_group=1,
            width="MEDIUM",
            display_name="Connector name",
            validator=_wrong_name,
        ),
        Definition(
            name="connector.class",
            kind="STRING",
            importance="HIGH",
            documentation="Class of the connector: its full name, or the name without package, with or "
            "without `Connector` at its end.",
            group=COMMON,
            order_in_group=2,
            width="LONG",
            display_name="Connector class",
        ),
        _version("connector", "Connector version", 3, plugin.version, importance="MEDIUM", width="MEDIUM"),
        Definition(
            name="tasks.max",
            kind="INT",
            default=1,
            importance="HIGH",
            documentation="Most tasks that the connector may have.",
            group=COMMON,
            order_in_group=4,
            width="SHORT",
            display_name="Tasks max",
            validator=between(1, _MOST_TASKS),
        ),
        Definition(
            name="tasks.max.enforce",
            kind="BOOLEAN",
            default=True,
            importance="LOW",
            documentation="Whether a connector with more tasks than `tasks.max` fails. Deprecated.",
            group=COMMON,
            order_in_group=5,
            width="SHORT",
            display_name="Enforce tasks max",
        ),
        _converter("key", "Key converter class", 6, defaults["key.converter"], plugin.converters),
        _version("key.converter", "Key converter version", 7, plugin.version),
        _converter("value", "Value converter class", 8, defaults["value.converter"], plugin.converters),
        _version("value.converter", "Value converter version", 9, plugin.version),
        _converter("header", "Header converter class", 10, header, tuple(sorted(HEADER_CONVERTERS))),
        _version("header.converter", "Header converter version", 11, plugin.version),
        Definition(
            name="transforms",
            kind="LIST",
            default=[],
            importance="LOW",
            documentation="Names of the transformations that records go through.",
            group=_TRANSFORMS,
            order_in_group=12,
            width="LONG",
            display_name="Transforms",
            validator=unsupported,
        ),
        Definition(
            name="predicates",
            kind="LIST",
            default=[],
            importance="LOW",
            documentation="Names of the predicates that transformations use.",
            group=_PREDICATES,
            order_in_group=13,
            width="LONG",
            display_name="Predicates",
            validator=unsupported,
        ),
        Definition(
            name="config.action.reload",
            kind="STRING",
            default="restart",
            importance="LOW",
            documentation="What happens when a value from an external provider changes. There are no such "
            "providers here, so neither `none` nor `restart` makes a difference.",
            group=COMMON,
            order_in_group=14,
            width="MEDIUM",
            display_name="Reload Action",
            validator=one_of("none", "restart"),
        ),
        *_ERROR_HANDLING,
    )


def _version(
    of: str, display_name: str, order: int, version: str, *, importance: Any = "LOW", width: Any = "SHORT"
) -> Definition:
    return Definition(
        name=f"{of}.plugin.version",
        kind="STRING",
        default=version,
        importance=importance,
        documentation="Version to use. There is one.",
        group=COMMON,
        order_in_group=order,
        width=width,
        display_name=display_name,
        recommended=(version,),
        validator=only(version, f"Only version {version} is available"),
    )


def _converter(
    of: str, display_name: str, order: int, default: str, converters: tuple[str, ...]
) -> Definition:
    return Definition(
        name=f"{of}.converter",
        kind="CLASS",
        default=default,
        importance="LOW",
        documentation=f"Class that converts between the bytes of {of}s in topics and the values that the "
        "connector sees.",
        group=COMMON,
        order_in_group=order,
        width="SHORT",
        display_name=display_name,
        recommended=converters,
        validator=_among(converters),
    )


def _among(converters: tuple[str, ...]) -> Validator:
    known = dict.fromkeys(converters)
    return lambda name: "" if name and full_name(name, known) else f"Class {name} could not be found."


def _wrong_name(name: Any) -> str:
    if not name:
        return "String may not be empty" if name is not None else "Value must be non-null"
    controls = [str(ord(character)) for character in name if ord(character) < 32 or ord(character) == 127]
    if controls:
        shown = ", ".join(controls)
        return f"String may not contain control sequences but had the following ASCII chars: {shown}"
    if "/" in name or name in (".", ".."):
        return "No URL could lead to a connector of this name"
    return "" if len(name) <= _LONGEST_NAME else f"String may not be longer than {_LONGEST_NAME} characters"


_ERROR_HANDLING: Final = (
    Definition(
        name="errors.retry.timeout",
        kind="LONG",
        default=0,
        documentation="How long a conversion that may succeed later is tried again, in milliseconds. No "
        "conversion here is of that kind; tasks that ask to be asked again are, without an end.",
        group=_ERRORS,
        order_in_group=1,
        width="MEDIUM",
        display_name="Retry Timeout for Errors",
        validator=at_least(-1),
    ),
    Definition(
        name="errors.retry.delay.max.ms",
        kind="LONG",
        default=60_000,
        documentation="Longest pause between two attempts of such a conversion, in milliseconds.",
        group=_ERRORS,
        order_in_group=2,
        width="MEDIUM",
        display_name="Maximum Delay Between Retries for Errors",
        validator=at_least(1),
    ),
    Definition(
        name="errors.tolerance",
        kind="STRING",
        default="none",
        documentation="`none`: the first record that cannot be converted makes the task fail. `all`: such "
        "records are skipped.",
        group=_ERRORS,
        order_in_group=3,
        width="SHORT",
        display_name="Error Tolerance",
        validator=one_of("none", "all"),
    ),
    Definition(
        name="errors.log.enable",
        kind="BOOLEAN",
        default=False,
        documentation="Whether each error is logged, with the place of its record.",
        group=_ERRORS,
        order_in_group=4,
        width="SHORT",
        display_name="Log Errors",
    ),
    Definition(
        name="errors.log.include.messages",
        kind="BOOLEAN",
        default=False,
        documentation="Whether the log of an error also has the record.",
        group=_ERRORS,
        order_in_group=5,
        width="SHORT",
        display_name="Log Error Details",
    ),
)

_SOURCE: Final = (
    Definition(
        name="topic.creation.groups",
        kind="LIST",
        default=[],
        importance="LOW",
        documentation="Groups of configurations for new topics. Only `topic.creation.default.*` works here.",
        group=_TOPIC_CREATION,
        order_in_group=1,
        width="LONG",
        display_name="Topic Creation Groups",
        validator=only([], "Only the default group, topic.creation.default.*, is supported"),
    ),
    Definition(
        name="exactly.once.support",
        kind="STRING",
        default="requested",
        documentation="Sources here deliver at least once, so `required` is refused.",
        group=_EXACTLY_ONCE,
        order_in_group=2,
        width="SHORT",
        display_name="Exactly once support",
        validator=one_of("requested"),
    ),
    Definition(
        name="transaction.boundary",
        kind="STRING",
        default="poll",
        documentation="Where transactions end, if there were any.",
        group=_EXACTLY_ONCE,
        order_in_group=3,
        width="SHORT",
        display_name="Transaction Boundary",
        validator=one_of("poll"),
    ),
    Definition(
        name="transaction.boundary.interval.ms",
        kind="LONG",
        default=None,
        importance="LOW",
        documentation="How often transactions end, if there were any.",
        group=_EXACTLY_ONCE,
        order_in_group=4,
        width="SHORT",
        display_name="Transaction boundary interval",
        validator=only(None, "There are no transactions here"),
    ),
    Definition(
        name="offsets.storage.topic",
        kind="STRING",
        default=None,
        importance="LOW",
        documentation="Topic for the offsets of this connector. All are in one topic here.",
        group=_OFFSETS_TOPIC,
        order_in_group=1,
        width="LONG",
        display_name="Offsets topic",
        validator=only(None, "The offsets of all connectors are in the worker's topic"),
    ),
)

_SINK: Final = (
    Definition(
        name="topics",
        kind="LIST",
        default=[],
        importance="HIGH",
        documentation="Topics to read, separated by commas.",
        group=COMMON,
        order_in_group=4,
        width="LONG",
        display_name="Topics",
    ),
    Definition(
        name="topics.regex",
        kind="STRING",
        default="",
        importance="HIGH",
        documentation="Regular expression for the names of the topics to read, instead of `topics`.",
        group=COMMON,
        order_in_group=4,
        width="LONG",
        display_name="Topics regex",
    ),
    Definition(
        name="errors.deadletterqueue.topic.name",
        kind="STRING",
        default="",
        documentation="Topic for records that cause errors; without it they are only skipped.",
        group=_ERRORS,
        order_in_group=6,
        width="MEDIUM",
        display_name="Dead Letter Queue Topic Name",
    ),
    Definition(
        name="errors.deadletterqueue.topic.replication.factor",
        kind="SHORT",
        default=3,
        documentation="Replicas of the dead letters' topic, if it has to be created; at most one per broker.",
        group=_ERRORS,
        order_in_group=7,
        width="MEDIUM",
        display_name="Dead Letter Queue Topic Replication Factor",
    ),
    Definition(
        name="errors.deadletterqueue.context.headers.enable",
        kind="BOOLEAN",
        default=False,
        documentation="Whether dead letters have headers that say where they come from and what went wrong.",
        group=_ERRORS,
        order_in_group=8,
        width="MEDIUM",
        display_name="Enable Error Context Headers",
    ),
)
