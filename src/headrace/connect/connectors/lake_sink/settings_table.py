"""How the settings of the lake sink are written down: three kinds of definition beside the plain one.

A *hint* tunes how Confluent's connector works and has nothing to tune here: every valid value is accepted. A
*limit* is a setting of which one value is done; others are refused with the reason. Never holds a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.connect.definitions import Definition, Importance, Kind, Validator, one_of, only, shown

CONNECTOR: Final = "Connector"
SCHEMA: Final = "Schema"
S3: Final = "S3"
KEYS_AND_HEADERS: Final = "Keys and Headers"
STORAGE: Final = "Storage"
PARTITIONER: Final = "Partitioner"
TABLE: Final = "Table"


def hint(
    name: str,
    kind: Kind,
    default: Any,
    about: str,
    *,
    group: str = S3,
    importance: Importance = "LOW",
    validator: Validator | None = None,
) -> Definition:
    """A setting that is accepted and has no effect."""
    return Definition(
        name=name,
        kind=kind,
        default=default,
        importance=importance,
        documentation=f"Accepted, without effect: {about}",
        group=group,
        validator=validator,
    )


def limit(
    name: str, kind: Kind, value: Any, reason: str, *, group: str = S3, importance: Importance = "LOW"
) -> Definition:
    """A setting that takes one value."""
    text = shown(value)
    return Definition(
        name=name,
        kind=kind,
        default=value,
        importance=importance,
        documentation=f"Only {f'`{text}`' if text else 'empty'}: {reason[0].lower()}{reason[1:]}.",
        group=group,
        validator=only(value, reason),
    )


def known_class(classes: Mapping[str, object], alternative: str = "") -> Validator:
    """A class in a table. `alternative` is said to whoever names another."""

    def check(name: Any) -> str:
        if name in classes:
            return ""
        return f"Class {name} could not be found.{' ' if alternative else ''}{alternative}"

    return check


def wrong_in_name(text: Any) -> str:
    """For a part of the name of a file."""
    wrong = [letter for letter in text or "" if not letter.isprintable() or letter in "/\\"]
    return "It must be printable, and without slashes" if wrong else ""


def choice(
    name: str,
    default: Any,
    choices: tuple[str, ...],
    documentation: str,
    *,
    group: str,
    importance: Importance = "LOW",
) -> Definition:
    return Definition(
        name=name,
        kind="STRING",
        default=default,
        importance=importance,
        documentation=documentation,
        group=group,
        validator=one_of(*choices),
        recommended=choices,
    )
