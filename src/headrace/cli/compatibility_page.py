"""Generates `docs/compatibility.md` from the code: `python -m headrace.cli.compatibility_page FILE`.

Invariant: the page is a pure function of the APIs, the config tables, the functions, the settings of the lake
sink and the lists of differences; a test fails if the file in the repository differs from it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from headrace.broker.api import Api
from headrace.broker.apis import ALL
from headrace.broker.configs.broker_table import BROKER_CONFIGS
from headrace.broker.configs.definition import Config
from headrace.broker.configs.topic_table import TOPIC_CONFIGS
from headrace.broker.differences import BEYOND_ANSWERS, DIFFERENCES, NOT_OFFERED
from headrace.connect.connectors.lake_sink.checking import all_settings
from headrace.connect.connectors.lake_sink.transformations import PREDICATES, SUPPORTED, Kind
from headrace.connect.definitions import Definition, shown
from headrace.pipeline import differences as statement_differences
from headrace.pipeline.expressions.functions import differences as function_differences
from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.functions.table import ALL as FUNCTIONS

_INTRODUCTION = """# Compatibility

<!-- Generated from the code: python -m headrace.cli.compatibility_page docs/compatibility.md -->

[The embedded broker](#the-embedded-broker) and Apache Kafka; [streaming SQL](#streaming-sql) and ksqlDB;
[the lake sink](#the-lake-sink) and Confluent's S3 sink.

# The embedded broker

What the embedded broker supports of Kafka's protocol, and where its answers differ from those of Apache Kafka
4.3.1. The same conformance tests (`tests/conformance/`) run against both.
"""


def compatibility_page() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        "## API keys\n",
        "The versions are those that Apache Kafka 4.3.1 advertises.\n",
        _table(("key", "name", "versions", "behaviour"), (_api_row(api) for api in ALL.values())),
        "### Not offered yet\n",
        _table(("keys", "why"), NOT_OFFERED),
        "## Where the answers differ\n",
        _table(("what", "Apache Kafka 4.3.1", "here, and why"), (*DIFFERENCES, *BEYOND_ANSWERS)),
        "## Topic configs\n",
        "Names, types, defaults and checks are Kafka's. *kept* means that a value is checked, stored and "
        "shown, but has no effect on one node.\n",
        _table(
            ("name", "type", "default", "effect"), (_config_row(config) for config in TOPIC_CONFIGS.values())
        ),
        "## Broker configs\n",
        _table(
            ("name", "type", "default", "effect"), (_config_row(config) for config in BROKER_CONFIGS.values())
        ),
        *_streaming_sql(),
        *_lake_sink(),
    ]
    return "\n".join(parts)


def _streaming_sql() -> list[str]:
    kinds = {
        kind: sorted(each.name for each in FUNCTIONS.values() if each.kind is kind) for kind in FunctionKind
    }
    return [
        "# Streaming SQL\n",
        "Statements are ksqlDB's, run by Spark. Where they behave differently:\n",
        _table(("what", "ksqlDB", "here, and why"), statement_differences.DIFFERENCES),
        "## Functions\n",
        *(f"**{kind.name.capitalize()}**: {', '.join(names)}.\n" for kind, names in kinds.items()),
        "Where they differ:\n",
        _table(("function", "how"), function_differences.DIFFERENCES.items()),
    ]


def _lake_sink() -> list[str]:
    ours = {each.name: each for each in all_settings(is_confluents=False)}
    groups = dict.fromkeys(each.group or "" for each in ours.values())
    confluents = all_settings(is_confluents=True)
    parts = [
        "# The lake sink\n",
        "The settings of `io.confluent.connect.s3.S3SinkConnector` and `headrace.LakeSinkConnector`, beside "
        "those of every sink. Names, types and defaults of the first are those of Confluent's version 12, "
        "except the default of `report.null.values.to.dlq`. Where the second has another default, it "
        "follows in brackets. [connect.md](connect.md#the-lake-sink) says how it works.\n",
    ]
    for group in groups:
        rows = (_lake_row(each, ours[each.name]) for each in confluents if each.group == group)
        parts += [f"## {group}\n", _table(("setting", "type", "default", "effect"), rows)]
    return [
        *parts,
        "## Transformations and predicates\n",
        _table(
            ("class", "settings"),
            (_transformation_row(name, kind) for name, kind in {**SUPPORTED, **PREDICATES}.items()),
        ),
    ]


def _lake_row(confluents: Definition, ours: Definition) -> tuple[str, ...]:
    default = _default(confluents)
    if _default(ours) != default:
        default += f" ({_default(ours)})"
    return f"`{confluents.name}`", confluents.kind.lower(), default, confluents.documentation


def _default(definition: Definition) -> str:
    if definition.is_required:
        return "required"
    value = shown(definition.default)
    return f"`{value}`" if value else "empty"


def _transformation_row(name: str, kind: Kind) -> tuple[str, ...]:
    settings = (
        f"`{each.name}`" + (" (required)" if each.is_required else f" ({text})" if text else "")
        for each, text in ((each, _default_text(each)) for each in kind.settings)
    )
    return f"`{name}$Key`, `{name}$Value`" if kind.has_sides else f"`{name}`", ", ".join(settings)


def _default_text(definition: Definition) -> str:
    value = None if definition.is_required else shown(definition.default)
    return f"default `{value}`" if value else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines, ""])


def _api_row(api: Api) -> tuple[str, ...]:
    lowest, highest = api.versions
    versions = f"{lowest} to {highest}" if lowest != highest else str(lowest)
    if api.lowest_served is not None:
        versions += f" (served from {api.lowest_served})"
    return str(api.key), api.name, versions, _behaviour(api)


def _behaviour(api: Api) -> str:
    """The paragraph of the API's module that describes its behaviour."""
    text = import_module(api.module).__doc__ or ""
    found = re.search(r"^Behaviour: (.+?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{api.module} does not describe its behaviour")
    sentence = re.sub(r"\s+", " ", found.group(1)).strip()
    return sentence[0].upper() + sentence[1:]


def _config_row(config: Config) -> tuple[str, ...]:
    default = config.default_text
    shown = "" if default is None else f"`{default}`" if default else "empty"
    effect = "kept" if config.inert else config.documentation
    return (
        f"`{config.name}`",
        config.type.name.lower(),
        shown,
        re.sub(r"\s+", " ", effect).replace("|", "\\|"),
    )


def main(arguments: Sequence[str]) -> int:
    """Write the page to the file named by the only argument."""
    if len(arguments) != 1:
        print("usage: python -m headrace.cli.compatibility_page FILE", file=sys.stderr)
        return 2
    Path(arguments[0]).write_text(compatibility_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
