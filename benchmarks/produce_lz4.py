"""Produce throughput with lz4 batches: 3 million JSON events of about 200 bytes, acks=all, 128 KiB.

Like produce_throughput.py, but compressed by the producer, and with events instead of random letters, which
lz4 cannot compress. Apache Kafka decompresses what it receives to look at each record; the embedded broker
checks the batch's CRC and stores it unchanged. Target: 1.5 times the records per second.

    python benchmarks/produce_lz4.py [--records 3000000] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from side_by_side import produce
from side_by_side.comparison import Claim

PROPERTIES = {
    "acks": "all",
    "linger.ms": "5",
    "batch.size": str(128 * 1024),
    "compression.type": "lz4",
}
CLAIMS = (Claim(figure=produce.RATE.name, of="ratio", bound="at least", target=1.5),)
EVENTS = 20_000


def write_events(file: Path, size: int) -> None:
    """Different events, one per line, from which the tool picks; the same ones in every run."""
    chance = random.Random(4)
    lines = []
    for number in range(EVENTS):
        event = {
            "Event_Type": chance.choice(("ListingView", "Search", "Contact", "Favourite")),
            "Event_Version": "1",
            "User_ID": f"user-{chance.randrange(10**6)}",
            "Listing_ID": f"listing-{chance.randrange(10**7)}",
            "Server_Time": f"2025-06-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:07Z",
            "Device_Type": chance.choice(("web", "ios", "android")),
            "Note": "",
        }
        missing = size - len(json.dumps(event))
        event["Note"] = "".join(chance.choices("abcdefghij ", k=max(0, missing)))
        lines.append(json.dumps(event))
    file.write_text("\n".join(lines), encoding="ascii")


def main() -> None:
    arguments = produce.parser(__doc__, records=3_000_000).parse_args()
    work = f"{arguments.records:,} JSON events of {arguments.record_size} B"
    with tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        events = Path(folder) / "events.txt"
        write_events(events, arguments.record_size)
        produce.compare(
            f"produce {work}, acks=all, lz4, batches of 128 KiB",
            arguments,
            properties=PROPERTIES,
            claims=CLAIMS,
            payload_file=events,
        )


if __name__ == "__main__":
    main()
