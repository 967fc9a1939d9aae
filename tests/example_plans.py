"""The example's statements and connector as values, without a platform that runs them."""

from __future__ import annotations

from headrace.connect.connectors.lake_sink.parsing import lake_sink_of
from headrace.connect.state.configs import ConnectorWish
from headrace.core.settings import Settings
from headrace.lake.sink import LakeSink
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource


def avro_plan(events_topic: str) -> QueryPlan:
    """The plan of the query in the statements."""
    parsed = parse(marketplace.statements(events_topic))
    (source,) = (each for each in parsed if isinstance(each.statement, CreateSource))
    (query,) = (each for each in parsed if isinstance(each.statement, CreateAs))
    assert isinstance(source.statement, CreateSource)
    assert isinstance(query.statement, CreateAs)
    events = plan_source(source.statement, Catalogue(), text=source.text)
    return plan_query(query.statement, Catalogue(sources={events.name: events}), text=query.text)


def lake_sink(settings: Settings) -> LakeSink:
    """What the connector asks for."""
    connector = marketplace.connector(settings.events_topic)
    wish = ConnectorWish(name=connector["name"], config=connector["config"], config_version=1)
    return lake_sink_of(wish, settings)
