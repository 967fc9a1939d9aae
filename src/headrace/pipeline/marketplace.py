"""The example `examples/marketplace/events.sql`: events as they are posted become Avro, by two statements."""

from __future__ import annotations

from importlib import resources
from typing import Final

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.query_plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource

_DEFINITION: Final = "DEFINE events_topic = '{}';"


def statements(events_topic: str) -> str:
    text = (resources.files("headrace") / "examples" / "marketplace" / "events.sql").read_text("utf-8")
    return text.replace(_DEFINITION.format("events"), _DEFINITION.format(events_topic))


def plan(events_topic: str) -> QueryPlan:
    """What the statements ask for, without anybody having run them."""
    parsed = parse(statements(events_topic))
    (source,) = (each for each in parsed if isinstance(each.statement, CreateSource))
    (query,) = (each for each in parsed if isinstance(each.statement, CreateAs))
    assert isinstance(source.statement, CreateSource)
    assert isinstance(query.statement, CreateAs)
    events = plan_source(source.statement, Catalogue(), text=source.text)
    return plan_query(query.statement, Catalogue(sources={events.name: events}), text=query.text)
