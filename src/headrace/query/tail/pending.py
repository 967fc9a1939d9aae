"""Records that were fetched and wait for being decoded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.client.batches import RecordSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Records of a partition from offset `first` on that are to be decoded."""

    partition: int
    first: int
    records: RecordSet


def joined(pending: Sequence[Pending]) -> list[Pending]:
    """The records of each partition at once, in order. Where some have expired, those behind them begin anew:
    of their first batch, only the records from their first offset on count.
    """
    groups: list[list[Pending]] = []
    newest: dict[int, list[Pending]] = {}
    for each in pending:
        group = newest.get(each.partition)
        if group is None or group[-1].records.is_out_of_range:
            group = newest[each.partition] = []
            groups.append(group)
        group.append(each)
    return [_join(each) if len(each) > 1 else each[0] for each in groups]


def _join(parts: Sequence[Pending]) -> Pending:
    content = bytearray()
    batches = []
    for each in parts:
        batches += [
            header._replace(position=header.position + len(content)) for header in each.records.batches
        ]
        content += each.records.content
    last = parts[-1].records
    records = RecordSet(content=bytes(content), batches=tuple(batches), position=last.position, end=last.end)
    return Pending(partition=parts[0].partition, first=parts[0].first, records=records)
