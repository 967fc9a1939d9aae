"""The embedded broker with a log that accepts every batch and stores none: shows the client's maximum.

Run like `headrace broker`. Only for producing: there is nothing to fetch.
"""

from __future__ import annotations

import sys
from typing import Any

from headrace.cli.main import main
from headrace.log.partition.partition_log import Appended, PartitionLog
from headrace.wire.record_batch import read_header


def append(self: PartitionLog, records: Any, **_times_and_permissions: Any) -> Appended:
    base_offset = self.end_offset
    end_offset = base_offset + read_header(records).last_offset_delta + 1
    self.segments.end_at(end_offset)
    return Appended(base_offset, end_offset - 1, -1, 0, duplicate=False)


if __name__ == "__main__":
    PartitionLog.append = append  # type: ignore[method-assign]
    sys.exit(main())
