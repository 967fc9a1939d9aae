"""Single message transforms and predicates of the lake sink: which there are, their settings, reading them.

`SUPPORTED` and `PREDICATES` have them as data, with Kafka's settings. Invariants: a transformation that is
not in the table is refused by its name, and so is a setting that it does not have; the settings of a
`Transformation` are the texts that the user wrote, without defaults, under Kafka's present names
(`blacklist` is `exclude`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import re2

from headrace.connect.definitions import Definition, Validator, one_of, read_setting
from headrace.lake.sink import Predicate, Transformation

_PACKAGE: Final = "org.apache.kafka.connect.transforms."
_PREDICATE_PACKAGE: Final = f"{_PACKAGE}predicates."
_OF_EACH: Final = ("type", "predicate", "negate")
_NO_CLASS: Final = "A class is required"
_CAST_TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
_TARGETS: Final = ("string", "unix", "Date", "Time", "Timestamp")
_INSERTED: Final = ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field")

Settings = Mapping[str, str]
Wrong = dict[str, str]


def _nothing_wrong(_: Settings) -> Wrong:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A class of Kafka's. `check` finds what no single setting shows. `former` are names from before."""

    settings: tuple[Definition, ...] = ()
    has_sides: bool = True
    check: Callable[[Settings], Wrong] = _nothing_wrong
    former: Mapping[str, str] = field(default_factory=dict)


def _setting(
    name: str, documentation: str, *, default: Any = None, validator: Validator | None = None
) -> Definition:
    return Definition(
        name=name, kind="STRING", documentation=documentation, default=default, validator=validator
    )


def _required(name: str, documentation: str, validator: Validator | None = None) -> Definition:
    return Definition(name=name, kind="STRING", documentation=documentation, validator=validator)


def _list(name: str, documentation: str, validator: Validator | None = None) -> Definition:
    return Definition(name=name, kind="LIST", documentation=documentation, default=[], validator=validator)


def _required_list(name: str, documentation: str, validator: Validator) -> Definition:
    return Definition(name=name, kind="LIST", documentation=documentation, validator=validator)


def _not_empty(value: Any) -> str:
    return "" if value else "It must not be empty"


def _not_empty_if_given(value: Any) -> str:
    return "" if value is None or value else "It must not be empty"


def _expression(value: Any) -> str:
    """Java's regular expressions are compiled elsewhere; what nobody understands is wrong there, too."""
    options = re2.Options()
    options.log_errors = False
    for compiled in (re.compile, lambda text: re2.compile(text, options)):
        try:
            compiled(value or "")
        except (re2.error, re.error, RecursionError, OverflowError):
            continue
        return ""
    return "It is not a regular expression"


def _target(value: Any) -> str:
    return "" if value in _TARGETS else f"String must be one of: {', '.join(_TARGETS)}"


def _renames(pairs: Any) -> str:
    wrong = [pair for pair in pairs if pair.count(":") != 1 or "" in pair.split(":")]
    return f"Invalid rename mapping: {wrong[0]}" if wrong else ""


def _casts(pairs: Any) -> str:
    if not pairs:
        return "Must specify at least one field to cast"
    names = [pair.rpartition(":")[0] for pair in pairs]
    for pair in pairs:
        if pair.count(":") > 1:
            return f"Invalid cast: {pair}"
        if pair.rpartition(":")[2].strip().lower() not in _CAST_TYPES:
            return f"Invalid type found in casting spec: {pair}. Valid types are {', '.join(_CAST_TYPES)}"
    if "" in names and len(names) > 1:
        return "Cast transformations that specify a type to cast the entire value to may only specify one"
    return ""


def _wrong_insertion(settings: Settings) -> Wrong:
    if not any(settings.get(name) for name in _INSERTED):
        return {"type": "No field insertion configured"}
    if settings.get("static.field") and "static.value" not in settings:
        return {"static.value": f"No value specified for static field: {settings['static.field']}"}
    return {}


def _wrong_conversion(settings: Settings) -> Wrong:
    if settings.get("target.type", "").strip() == "string" and not settings.get("format", "").strip():
        return {
            "format": "TimestampConverter requires format option to be specified when using string timestamps"
        }
    return {}


_NULLS: Final = Definition(
    name="replace.null.with.default",
    kind="BOOLEAN",
    default=True,
    documentation="Whether a null in a field that has a default becomes that default.",
)
SUPPORTED: Final[Mapping[str, Kind]] = {
    "Cast": Kind(
        settings=(_required_list("spec", "`field:type`, separated by commas, or one type.", _casts), _NULLS)
    ),
    "ExtractField": Kind(
        settings=(
            _required("field", "The field that becomes the whole.", _not_empty),
            _setting(
                "field.syntax.version",
                "V2: dots are between names of nested fields.",
                default="V1",
                validator=one_of("V1", "V2"),
            ),
            _NULLS,
        )
    ),
    "Filter": Kind(has_sides=False),
    "Flatten": Kind(settings=(_setting("delimiter", "Text between the names.", default="."),)),
    "HoistField": Kind(settings=(_required("field", "Field that holds the whole.", _not_empty),)),
    "InsertField": Kind(
        settings=(
            *(_setting(name, "Name of the field to insert.") for name in _INSERTED),
            _setting("static.value", "Text of the static field."),
            _NULLS,
        ),
        check=_wrong_insertion,
    ),
    "MaskField": Kind(
        settings=(
            _required_list("fields", "Fields to mask.", _not_empty),
            _setting("replacement", "What masks them.", validator=_not_empty_if_given),
            _NULLS,
        )
    ),
    "RegexRouter": Kind(
        has_sides=False,
        settings=(
            _required("regex", "Expression that matches the whole topic.", _expression),
            _required("replacement", "The table's name, with $1 for groups."),
        ),
    ),
    "ReplaceField": Kind(
        settings=(
            _list("exclude", "Fields to leave out."),
            _list("include", "The only fields to keep."),
            _list("renames", "`old:new`, separated by commas.", _renames),
            _NULLS,
        ),
        former={"blacklist": "exclude", "whitelist": "include"},
    ),
    "TimestampConverter": Kind(
        settings=(
            _setting("field", "Field to convert; empty for the whole.", default=""),
            _required("target.type", "What it becomes.", _target),
            _setting("format", "Java's SimpleDateFormat, for texts.", default=""),
            _setting(
                "unix.precision",
                "Unit of numbers.",
                default="milliseconds",
                validator=one_of("seconds", "milliseconds", "microseconds", "nanoseconds"),
            ),
            _NULLS,
        ),
        check=_wrong_conversion,
    ),
    "ValueToKey": Kind(
        has_sides=False,
        settings=(_required_list("fields", "Fields of the value that become the key.", _not_empty), _NULLS),
    ),
}
PREDICATES: Final[Mapping[str, Kind]] = {
    "HasHeaderKey": Kind(settings=(_required("name", "Name of the header.", _not_empty),), has_sides=False),
    "RecordIsTombstone": Kind(has_sides=False),
    "TopicNameMatches": Kind(
        settings=(_required("pattern", "Expression that matches the whole topic.", _expression),),
        has_sides=False,
    ),
}


def wrong_transformations(config: Settings) -> Wrong:
    """What is wrong with transformations and predicates, by the names of the settings."""
    wrong: Wrong = {}
    for group, package, table in (
        ("predicates", _PREDICATE_PACKAGE, PREDICATES),
        ("transforms", _PACKAGE, SUPPORTED),
    ):
        names = _names(config, group)
        for name in names:
            prefix = f"{group}.{name}."
            given = _given(config, prefix, names)
            kind, _ = _kind_of(given.get("type", ""), package, table)
            wrong |= _wrong(given, kind, table, prefix)
            if group == "transforms":
                wrong |= _wrong_condition(given, config, prefix)
        if len(set(names)) < len(names):
            wrong[group] = "Duplicate alias provided."
        for setting in config:
            rest = setting.removeprefix(f"{group}.")
            if rest != setting and not any(rest.startswith(f"{name}.") for name in names):
                wrong[setting] = f"The setting {group} does not list it"
    return wrong


def read_transformations(config: Settings) -> tuple[Transformation, ...]:
    """The transformations of a configuration without errors, in the order in which they apply."""
    predicates = {}
    for name in _names(config, "predicates"):
        given = _given(config, f"predicates.{name}.", _names(config, "predicates"))
        kind, _ = _kind_of(given["type"], _PREDICATE_PACKAGE, PREDICATES)
        predicates[name] = Predicate(kind=kind, settings=_own(given, PREDICATES[kind]))
    transformations = []
    for name in _names(config, "transforms"):
        given = _given(config, f"transforms.{name}.", _names(config, "transforms"))
        kind, side = _kind_of(given["type"], _PACKAGE, SUPPORTED)
        transformations.append(
            Transformation(
                name=name,
                kind=kind,
                side=side,
                settings=_own(given, SUPPORTED[kind]),
                predicate=predicates.get(given.get("predicate", "").strip()),
                negate=given.get("negate", "false").strip().lower() == "true",
            )
        )
    return tuple(transformations)


def _names(config: Settings, group: str) -> list[str]:
    return [name for each in config.get(group, "").split(",") if (name := each.strip())]


def _given(config: Settings, prefix: str, names: list[str]) -> dict[str, str]:
    """The settings with this prefix, but not those of a longer name that begins with it (`a` and `a.b`)."""
    group = prefix.partition(".")[0]
    longer = tuple(
        longer for name in names if (longer := f"{group}.{name}.") != prefix and longer.startswith(prefix)
    )
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and not (longer and name.startswith(longer))
    }


def _kind_of(class_name: str, package: str, table: Mapping[str, Kind]) -> tuple[str, str]:
    """The class without its package, and its side; empty if there is none here."""
    kind, _, inner = class_name.strip().removeprefix(package).partition("$")
    sides = ("Key", "Value") if kind in table and table[kind].has_sides else ("",)
    return (kind, inner.lower()) if kind in table and inner in sides else ("", "")


def _wrong(given: Settings, kind: str, table: Mapping[str, Kind], prefix: str) -> Wrong:
    if not kind:
        class_name = given.get("type", "").strip()
        reason = f"It is not supported. These are: {_shown(table)}" if class_name else _NO_CLASS
        return {f"{prefix}type": reason}
    own = _own(given, table[kind])
    # Errors are about the names that the user wrote.
    written = {now: before for before, now in table[kind].former.items() if before in given}
    wrong = {
        f"{prefix}{written.get(name, name)}": f"{kind} has no such setting"
        for name in own
        if name not in {definition.name for definition in table[kind].settings}
    }
    for definition in table[kind].settings:
        name = f"{prefix}{written.get(definition.name, definition.name)}"
        texts = {name: own[definition.name]} if definition.name in own else {}
        errors = read_setting(replace(definition, name=name), texts).errors
        if errors:
            wrong[name] = errors[0]
    return wrong or {f"{prefix}{name}": reason for name, reason in table[kind].check(own).items()}


def _wrong_condition(given: Settings, config: Settings, prefix: str) -> Wrong:
    predicate = given.get("predicate", "").strip()
    negate = given.get("negate", "false").strip().lower()
    wrong = {}
    if predicate and predicate not in _names(config, "predicates"):
        wrong[f"{prefix}predicate"] = f"The setting predicates does not list {predicate}"
    if negate not in ("true", "false"):
        wrong[f"{prefix}negate"] = "Expected value to be either true or false"
    elif negate == "true" and not predicate:
        wrong[f"{prefix}negate"] = "There is no predicate to negate"
    return wrong


def _own(given: Settings, kind: Kind) -> dict[str, str]:
    """The settings of the class itself, under their present names."""
    return {kind.former.get(name, name): value for name, value in given.items() if name not in _OF_EACH}


def _shown(table: Mapping[str, Kind]) -> str:
    return ", ".join(f"{name}$Key and $Value" if kind.has_sides else name for name, kind in table.items())
