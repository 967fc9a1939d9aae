"""The platform's own two flows: JSON events to Avro, Avro events to the lake.

They say the same as the statements
`CREATE STREAM source_json (Event_Type VARCHAR, …) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON')` and
`CREATE STREAM target_json WITH (KAFKA_TOPIC='events_avro', VALUE_FORMAT='AVRO') AS
SELECT *, SUBSTRING(Server_Time, 0, 10) AS Server_Date FROM source_json`; unquoted names become upper case.
"""

from __future__ import annotations

from typing import Final

from headrace.core.settings import Settings
from headrace.lake.layout import TableLayout
from headrace.pipeline.plan import DerivedColumn, LakeFlow, TranscodeFlow

EVENT_COLUMNS: Final = ("EVENT_TYPE", "EVENT_VERSION", "USER_ID", "LISTING_ID", "SERVER_TIME", "DEVICE_TYPE")
# ksqlDB's SUBSTRING(x, 0, 10) gives the first ten characters; Spark counts from 1.
SERVER_DATE: Final = DerivedColumn(name="SERVER_DATE", expression="substring(SERVER_TIME, 1, 10)")


def transcode_flow(settings: Settings) -> TranscodeFlow:
    topic = settings.events_topic
    return TranscodeFlow(
        query=f"{topic}-to-avro",
        source_topic=topic,
        sink_topic=f"{topic}_avro",
        dead_letter_topic=f"{topic}_dlq",
        columns=EVENT_COLUMNS,
        derived=(SERVER_DATE,),
    )


def lake_flow(settings: Settings) -> LakeFlow:
    transcode = transcode_flow(settings)
    table = TableLayout(
        name=settings.events_topic,
        path=settings.lake_dir / settings.events_topic,
        value_columns=transcode.output_columns,
        partition_columns=("EVENT_TYPE", "SERVER_DATE"),
    )
    return LakeFlow(
        query=f"{settings.events_topic}-to-lake",
        topic=transcode.sink_topic,
        dead_letter_topic=f"{transcode.sink_topic}_dlq",
        table=table,
    )
