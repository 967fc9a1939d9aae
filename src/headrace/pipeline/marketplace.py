"""The example's queries: from posted events to Avro, and from Avro to rows of the lake.

The first is in `examples/marketplace/events.sql`, which `headrace demo` runs. The second always runs, and has
the columns of the first.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.into_lake import plan_into_lake
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource

_DEFINITION: Final = "DEFINE events_topic = '{}';"
_PARTITION_COLUMNS: Final = ("EVENT_TYPE", "SERVER_DATE")
_DATE_COLUMNS: Final = ("SERVER_DATE",)


def statements(events_topic: str) -> str:
    text = (resources.files("headrace") / "examples" / "marketplace" / "events.sql").read_text("utf-8")
    return text.replace(_DEFINITION.format("events"), _DEFINITION.format(events_topic))


def avro_plan(events_topic: str) -> QueryPlan:
    """The plan of the query in the statements, without running them."""
    parsed = parse(statements(events_topic))
    (source,) = (each for each in parsed if isinstance(each.statement, CreateSource))
    (query,) = (each for each in parsed if isinstance(each.statement, CreateAs))
    assert isinstance(source.statement, CreateSource)
    assert isinstance(query.statement, CreateAs)
    events = plan_source(source.statement, Catalogue(), text=source.text)
    return plan_query(query.statement, Catalogue(sources={events.name: events}), text=query.text)


def lake_plan(settings: Settings) -> QueryPlan:
    """All columns of the Avro records, as rows of the lake's table."""
    return plan_into_lake(
        avro_plan(settings.events_topic).sink,
        query_id=f"{settings.events_topic}-to-lake",
        table=settings.events_topic,
        folder=settings.lake_dir,
        partition_columns=_PARTITION_COLUMNS,
        date_columns=_DATE_COLUMNS,
    )
