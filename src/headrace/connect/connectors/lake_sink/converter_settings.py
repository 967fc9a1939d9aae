"""The converters of the lake sink and their settings: `key.converter.…` and `value.converter.…`.

The pipeline reads records by their schemas' ids, so much of what Confluent's Avro converter can be told is
without effect for a reader. Invariants: a setting that would change what is read and is not done here is
refused; so is one that the converter does not have, rather than ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from headrace.connect.connectors.lake_sink.class_names import (
    AVRO_CONVERTER,
    CONVERTERS,
    SUBJECT_STRATEGIES,
)
from headrace.connect.converters import STRING_CONVERTER, full_name
from headrace.lake.sink import Converter, ConverterKind

Side = Literal["key", "value"]
# Without a word about converters, topics are as ksqlDB statements and Confluent's clients write them.
DEFAULTS: Final = {"key.converter": STRING_CONVERTER, "value.converter": AVRO_CONVERTER}
_REGISTRY: Final = "schema.registry.url"
_SCHEMAS: Final = "schemas.enable"
_STRATEGY: Final = "subject.name.strategy"
# Says what is wrong with a value; empty if nothing is.
_Rule = Callable[[str], str]


def _any(_: str) -> str:
    return ""


def _boolean(value: str) -> str:
    return "" if value.strip().lower() in ("true", "false") else "Expected value to be either true or false"


def _only(value: str, reason: str) -> _Rule:
    return lambda given: "" if given.strip().lower() == value.lower() else reason


def _strategy(value: str) -> str:
    known = value in SUBJECT_STRATEGIES
    return "" if known else f"Only {', '.join(SUBJECT_STRATEGIES.values())} are supported"


def _registry(value: str) -> str:
    if "," in value:
        return "One registry is supported, not several"
    try:
        parts = urlsplit(value.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    return "" if is_address else "It is not of the form http://HOST:PORT"


_NO_CREDENTIALS: Final = "Registries that ask for credentials are not supported"
_WRITERS: Final = (
    "auto.register.schemas",
    "use.latest.version",
    "latest.compatibility.strict",
    "normalize.schemas",
    "max.schemas.per.subject",
    "schemas.cache.config",
    "schemas.cache.size",
    "schema.cache.size",
    "connect.meta.data",
    "enhanced.avro.schema.support",
    "scrub.invalid.names",
    "discard.type.doc.default",
    "allow.optional.map.keys",
)
_AVRO: Final[Mapping[str, _Rule]] = {
    _REGISTRY: _registry,
    _SCHEMAS: _boolean,
    f"key.{_STRATEGY}": _strategy,
    f"value.{_STRATEGY}": _strategy,
    # About writing, or about caches and Connect's own schemas.
    **dict.fromkeys(_WRITERS, _any),
    "generalized.sum.type.support": _only(
        "false", "Other names for the branches of unions are not supported"
    ),
    "flatten.singleton.unions": _only("true", "Unions of one type are that type"),
    "specific.avro.reader": _only("false", "There are no Java classes to read into"),
    "basic.auth.credentials.source": lambda _: _NO_CREDENTIALS,
    "basic.auth.user.info": lambda _: _NO_CREDENTIALS,
    "schema.registry.basic.auth.user.info": lambda _: _NO_CREDENTIALS,
    "bearer.auth.credentials.source": lambda _: _NO_CREDENTIALS,
    "bearer.auth.token": lambda _: _NO_CREDENTIALS,
}
_JSON: Final[Mapping[str, _Rule]] = {
    _SCHEMAS: _boolean,
    "schemas.cache.size": _any,
    # Both forms are read.
    "decimal.format": _any,
    "replace.null.with.default": _only("false", "A null stays null, whatever the default of its field"),
    # Often left behind by an Avro converter.
    _REGISTRY: _any,
}
_STRING: Final[Mapping[str, _Rule]] = {
    _SCHEMAS: _boolean,
    _REGISTRY: _any,
    "encoding": _only("utf-8", "Only UTF-8 is supported"),
    "converter.encoding": _only("utf-8", "Only UTF-8 is supported"),
}
_BYTES: Final[Mapping[str, _Rule]] = {_SCHEMAS: _boolean, _REGISTRY: _any}
SETTINGS: Final[Mapping[ConverterKind, Mapping[str, _Rule]]] = {
    ConverterKind.AVRO: _AVRO,
    ConverterKind.JSON: _JSON,
    ConverterKind.STRING: _STRING,
    ConverterKind.BYTES: _BYTES,
}


def wrong_converter(config: Mapping[str, str], side: Side) -> dict[str, str]:
    """What is wrong with the settings of a converter, by their names. Nothing of a class that is unknown."""
    kind = converter_kind(config, side)
    if kind is None:
        return {}
    wrong = {}
    for name, value in _settings(config, side).items():
        rule = SETTINGS[kind].get(name)
        if rule is None:
            wrong[f"{side}.converter.{name}"] = f"The {kind.value} converter has no such setting here"
        elif reason := rule(value):
            wrong[f"{side}.converter.{name}"] = reason
    return wrong


def read_converter(config: Mapping[str, str], side: Side, registry_url: str) -> Converter:
    """The converter of a configuration without errors. `registry_url` is for those that name none."""
    kind = converter_kind(config, side)
    assert kind is not None
    settings = _settings(config, side)
    strategy = settings.get(f"{side}.{_STRATEGY}", "")
    return Converter(
        kind=kind,
        registry_url=settings.get(_REGISTRY, registry_url).strip().rstrip("/")
        if kind is ConverterKind.AVRO
        else "",
        # As in Kafka, JSON has schemas unless it is said that it has none.
        has_schemas=kind is ConverterKind.JSON and settings.get(_SCHEMAS, "true").strip().lower() == "true",
        subject_strategy=SUBJECT_STRATEGIES.get(strategy, "TopicNameStrategy"),
    )


def converter_kind(config: Mapping[str, str], side: Side) -> ConverterKind | None:
    """The kind of a configuration's converter; None if its class is unknown."""
    name = f"{side}.converter"
    known = full_name(config.get(name, DEFAULTS[name]).strip(), CONVERTERS)
    return CONVERTERS[known] if known is not None else None


def _settings(config: Mapping[str, str], side: Side) -> dict[str, str]:
    prefix = f"{side}.converter."
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and name != f"{prefix}plugin.version"
    }
