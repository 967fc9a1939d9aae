"""One record per batch: what a request costs.

With `batch.size=0` Kafka's producer-perf-test sends each record of 200 bytes in its own batch and thus in its
own request, five of them in flight at a time, acks=all. Target: 1.5 times the records per second of Apache
Kafka 4.3.1. (The latency is meaningless here: all records wait in the producer's buffer from the start.)

    python benchmarks/produce_single_records.py [--records 60000] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

from side_by_side import produce
from side_by_side.comparison import Claim

PROPERTIES = {"acks": "all", "linger.ms": "0", "batch.size": "0"}
CLAIMS = (Claim(figure=produce.RATE.name, of="ratio", bound="at least", target=1.5),)


def main() -> None:
    arguments = produce.parser(__doc__, records=60_000).parse_args()
    title = (
        f"produce {arguments.records:,} records of {arguments.record_size} B, acks=all, one record per batch"
    )
    produce.compare(title, arguments, properties=PROPERTIES, claims=CLAIMS)


if __name__ == "__main__":
    main()
