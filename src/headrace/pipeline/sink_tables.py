"""The tables of a sink: which query writes which one, and where it is. Known from the configuration alone.

The name of a table is that of its topic after the transformation RegexRouter. The id of a query is also the
name of the folder of its checkpoints. Pure: never looks at a topic or a table.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.lake.location import Location, located
from headrace.lake.sink import RENAMES_TABLE, LakeSink, NullValues, Transformation
from headrace.pipeline.expressions.functions.java_pattern_translation import compiled
from headrace.pipeline.expressions.functions.java_patterns import replacement_text
from headrace.pipeline.statements.errors import UnsupportedError

_LONGEST_ID: Final = 200
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")

_BY_TOPIC: Final = "TopicNameMatches"


def query_id(connector: str, topic: str) -> str:
    """The id of the query for a topic of a connector. Two connectors never share one."""
    plain = f"{connector}.{topic}"
    # A dot in both parts could be read in two ways.
    if not _UNSAFE.search(plain) and len(plain) <= _LONGEST_ID and "." not in connector:
        return plain
    digest = hashlib.sha256(f"{connector}\0{topic}".encode()).hexdigest()[:12]
    return f"{_UNSAFE.sub('_', plain)[: _LONGEST_ID - 13].strip('.')}-{digest}"


def table_name(sink: LakeSink, topic: str) -> str:
    """Raises lake_unsupported if it cannot be told from the name of the topic, or cannot name a folder."""
    name = topic
    for step in sink.transformations:
        if step.kind == RENAMES_TABLE and _applies(step, name):
            name = routed(step, name)
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise HeadraceError(
            "lake_unsupported",
            f"Connector {sink.name} gives the table of topic {topic} the name {name!r}, "
            "which cannot be that of a folder.",
            remedy="Change the replacement of the transformation RegexRouter.",
        )
    return name


def table_location(sink: LakeSink, topic: str) -> Location:
    """Raises lake_unsupported, as `table_name` does."""
    root = located(sink.storage)
    return (root / sink.topics_dir if sink.topics_dir else root) / table_name(sink, topic)


def letters_of(sink: LakeSink, topic: str) -> str:
    """The topic of the dead letters."""
    return sink.errors.dead_letter_topic or dead_letter_topic(topic)


def drops_of(sink: LakeSink) -> str:
    """Why some records become neither a row nor a dead letter; empty if all do."""
    if any(step.kind == "Filter" for step in sink.transformations):
        return "its transformation Filter drops records"
    if sink.null_values is NullValues.IGNORE:
        return "it ignores records without a value"
    return ""


def routed(step: Transformation, topic: str) -> str:
    """The name that RegexRouter gives to a topic: the whole name must match, but only what the pattern finds
    first is replaced, as in Kafka.
    """
    pattern = java_pattern(step, step.settings.get("regex", ""))
    found = pattern.search(topic)
    if pattern.fullmatch(topic) is None or found is None:
        return topic
    replacement = step.settings.get("replacement", "")
    try:
        new = replacement_text(replacement, found)
    except (LookupError, ValueError) as error:
        raise refused(step, f"has the invalid replacement {replacement!r}") from error
    return topic[: found.start()] + new + topic[found.end() :]


def java_pattern(step: Transformation, pattern: str) -> re.Pattern[str]:
    """Raises lake_unsupported."""
    try:
        return compiled(pattern)
    except UnsupportedError as error:
        raise refused(step, f"has a pattern with parts that are not supported: {pattern!r}") from error
    except ValueError as error:
        raise refused(step, f"has an invalid pattern {pattern!r}: {error}") from error


def refused(step: Transformation, problem: str) -> HeadraceError:
    return HeadraceError(
        "lake_unsupported",
        f"The transformation {step.name} ({step.kind}) {problem}.",
        remedy=f"Change transforms.{step.name}.* in the connector's configuration.",
    )


def _applies(step: Transformation, topic: str) -> bool:
    if step.predicate is None:
        return True
    if step.predicate.kind != _BY_TOPIC:
        # The start refuses it: a table needs all records of a topic.
        return False
    matches = java_pattern(step, step.predicate.settings.get("pattern", "")).fullmatch(topic) is not None
    return matches != step.negate
