"""Checks whether a log kept its promises: reads the history of a concurrent run and reports its anomalies.

    with HistoryWriter(folder / "producer.jsonl") as history:   # in every client, around every call
        history.write(SendInvoked(client="producer", value="producer:1", partition="orders/0"))
    ...
    report = check(read_history(folder.glob("*.jsonl")))
    assert not report.anomalies, report

Clients record what they request and what they are told (`events`), each in its own file (`files`); `check`
(`report`) collects the `facts` and applies the `rules` in order. None of this knows a broker: Apache Kafka,
ours and any other are judged by the same rules. `python -m headrace.testing.history FILES` prints the
report.
"""

from __future__ import annotations

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import (
    Assigned,
    ClientFailed,
    CommittedOffsetsRead,
    ConsumerStarted,
    Event,
    FinalRead,
    OffsetCommitEnded,
    OffsetCommitInvoked,
    Polled,
    ProducerStarted,
    Revoked,
    SendAcknowledged,
    SendInvoked,
    SendRefused,
    SendUnknown,
    Sought,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    now,
    partition_name,
)
from headrace.testing.history.files import HistoryError, HistoryWriter, read_history
from headrace.testing.history.report import Report, check
from headrace.testing.history.rules import RULES

__all__ = [
    "RULES",
    "Anomaly",
    "Assigned",
    "ClientFailed",
    "CommittedOffsetsRead",
    "ConsumerStarted",
    "Event",
    "FinalRead",
    "HistoryError",
    "HistoryWriter",
    "OffsetCommitEnded",
    "OffsetCommitInvoked",
    "Polled",
    "ProducerStarted",
    "Report",
    "Revoked",
    "Rule",
    "SendAcknowledged",
    "SendInvoked",
    "SendRefused",
    "SendUnknown",
    "Sought",
    "TransactionBegun",
    "TransactionEnded",
    "TransactionEnding",
    "check",
    "now",
    "partition_name",
    "read_history",
]
