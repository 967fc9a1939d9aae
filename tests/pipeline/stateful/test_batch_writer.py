"""What the writer of batches says of an error."""

from __future__ import annotations

from headrace.pipeline.spark.stateful.batch_writer import shortened

ERROR = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3000)
\t... 20 more
Caused by: java.io.IOException: Stream is corrupted
"""


def test_an_error_keeps_its_messages_without_stack_traces() -> None:
    assert shortened(ERROR).splitlines() == [
        "An error occurred while calling o1.save.",
        ": org.apache.spark.SparkException: Job aborted: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.",
        "Caused by: java.io.IOException: Stream is corrupted",
    ]
    assert len(shortened("x" * 10_000)) == 600
