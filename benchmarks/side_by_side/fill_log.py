"""A program: fills a partition of the embedded broker's log without the network, then waits to be killed.

Appends to the log like the broker, with checkpoints as often, which creates a log of millions of tiny batches
in minutes. Prints `filled END_OFFSET` when done; the parent then ends it with SIGKILL.

    python benchmarks/side_by_side/fill_log.py FOLDER TOPIC LARGE_BYTES SMALL_BYTES
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Final

from headrace.broker.server import CHECKPOINT_SECONDS
from headrace.log.config import DEFAULT_CONFIG
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.records import Record, build_batch

NO_OFFSET: Final = bytes(8)


def main(folder: str, topic: str, large: float, small: float) -> None:
    logs = DataFolder.open(folder)
    if topic not in logs.topics:
        logs.create_topic(topic, 1, {}, DEFAULT_CONFIG)
    log = logs.topics[topic].partitions[0]
    fill(logs, log, batch(records=8, size=16 * 1024), large)
    fill(logs, log, batch(records=1, size=230), small)
    print(f"filled {log.end_offset}", flush=True)
    signal.pause()


def batch(*, records: int, size: int) -> bytearray:
    listed = [
        Record(offset_delta=number, timestamp_delta=0, key=None, value=bytes(size), headers=())
        for number in range(records)
    ]
    return build_batch(listed, base_timestamp=int(time.time() * 1000))


def fill(logs: DataFolder, log: PartitionLog, content: bytearray, size: float) -> None:
    """Append the batch until this many bytes are written."""
    now_ms = int(time.time() * 1000)
    next_checkpoint = time.monotonic() + CHECKPOINT_SECONDS
    for _ in range(int(size / len(content))):
        content[:8] = NO_OFFSET  # the log has written its own
        log.append(content, now_ms=now_ms)
        if time.monotonic() >= next_checkpoint:
            logs.checkpoint(int(time.time() * 1000))
            next_checkpoint = time.monotonic() + CHECKPOINT_SECONDS


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
