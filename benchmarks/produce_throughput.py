"""Produce throughput and latency: 3 million records of 200 bytes, acks=all, batches of up to 128 KiB.

Kafka's own producer-perf-test fills one partition as fast as it can, on the embedded broker and on Apache
Kafka 4.3.1 in turn, both running all the time and warm. Target: 1.8 times the records per second, and a fifth
of the mean latency. The latency is that of a producer at full speed: it includes the wait in the producer's
own buffer, which fills up if the broker is the limit.

    python benchmarks/produce_throughput.py [--records 3000000] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

from side_by_side import produce
from side_by_side.comparison import Claim

PROPERTIES = {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}
CLAIMS = (
    Claim(figure=produce.RATE.name, of="ratio", bound="at least", target=1.8),
    Claim(figure=produce.MEAN_LATENCY.name, of="ratio", bound="at most", target=1 / 5),
)


def main() -> None:
    arguments = produce.parser(__doc__, records=3_000_000).parse_args()
    work = f"{arguments.records:,} records of {arguments.record_size} B"
    title = f"produce {work}, acks=all, linger 5 ms, batches of 128 KiB"
    produce.compare(title, arguments, properties=PROPERTIES, claims=CLAIMS)


if __name__ == "__main__":
    main()
