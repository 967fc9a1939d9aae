"""One start of a query into the lake: the stream of its topic, and the writer that takes its batches.

Never starts a second writer of a table: the lock of `writer_lock.py` comes first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.lake.layout import TableLayout
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import reads_of
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.writer_lock import hold_writer_lock

logger = logging.getLogger(__name__)

# Called after each batch of the lake, with its number and its result.
BatchListener = Callable[[int, WrittenBatch], None]


def start_into_lake(
    query: PlannedQuery, inputs: TopicInputs, table: TableLayout, *, on_batch: BatchListener
) -> tuple[StreamingQuery, AbstractContextManager[object]]:
    """The running query, and the lock it holds while it writes a batch."""
    (read,) = reads_of(query.plan.root)
    topic = inputs.topics[read.source.topic]
    session = inputs.session
    hold_writer_lock(session, table.path.parent / f".{table.name}.writer")
    writer = DeltaLakeWriter(
        session,
        table,
        query=query.name,
        topic=topic,
        dead_letter_topic=query.dead_letter_topics[topic.name],
        settings=query.settings,
    )
    # Held while a batch is written, so that stopping the query never interrupts a commit.
    in_batch = threading.Lock()

    def write(batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        with in_batch:
            written = writer.write(batch)
        logger.info(
            "lake batch %d: %d rows, %d repeated, %d dead letters in %d ms",
            batch_id,
            written.rows,
            written.repeated,
            written.dead_letters,
            (time.monotonic() - began) * 1000,
        )
        on_batch(batch_id, written)

    rows = lake_rows(built(query.plan.root, inputs), table, topic=topic)
    handle = (
        rows.writeStream.queryName(query.name)
        .foreachBatch(write)
        .option("checkpointLocation", str(inputs.checkpoint))
        .trigger(processingTime=f"{query.settings.lake_interval_ms} milliseconds")
        .start()
    )
    return handle, in_batch
