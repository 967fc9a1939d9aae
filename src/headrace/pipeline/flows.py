"""The flow into the lake: Avro events as rows. What makes Avro of events are statements
(`examples/marketplace/events.sql`).
"""

from __future__ import annotations

from typing import Final

from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.lake.layout import TableLayout
from headrace.pipeline.plan import LakeFlow

EVENT_COLUMNS: Final = (
    *("EVENT_TYPE", "EVENT_VERSION", "USER_ID", "LISTING_ID", "SERVER_TIME", "DEVICE_TYPE"),
    "SERVER_DATE",
)


def lake_flow(settings: Settings) -> LakeFlow:
    topic = f"{settings.events_topic}_avro"
    table = TableLayout(
        name=settings.events_topic,
        path=settings.lake_dir / settings.events_topic,
        value_columns=EVENT_COLUMNS,
        partition_columns=("EVENT_TYPE", "SERVER_DATE"),
    )
    return LakeFlow(
        query=f"{settings.events_topic}-to-lake",
        topic=topic,
        dead_letter_topic=dead_letter_topic(topic),
        table=table,
    )
