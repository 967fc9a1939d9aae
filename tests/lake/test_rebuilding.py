"""When a partition can be read again from its topic, and how it is named."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.positions import Reached
from headrace.lake.rebuilding import (
    Span,
    chosen_partition,
    matches,
    parse_partition,
    partition_text,
    refuse_rebuild,
)

COLUMNS = ("EVENT_TYPE", "SERVER_DATE")
HERE = Reached(topic_id="id", offsets={0: 100, 1: 50})


def refused(**changed: Any) -> str:
    given: dict[str, Any] = {
        "what": "It",
        "foreign": 0,
        "positions": HERE,
        "topic_id": "id",
        "starts": {0: 5, 1: 0},
    }
    spans = changed.pop(
        "spans", {0: Span(rows=3, lowest=5, highest=99), 1: Span(rows=1, lowest=7, highest=7)}
    )
    try:
        refuse_rebuild(spans, **(given | changed))
    except HeadraceError as error:
        return str(error)
    return ""


def test_a_partition_that_the_topic_has_can_be_rebuilt() -> None:
    assert refused() == ""


def test_a_record_that_expired_is_named() -> None:
    text = refused(starts={0: 6, 1: 0})
    assert "the record of its row at offset 5 of partition 0 has expired (the topic begins at 6)" in text
    assert "partition 1 has expired (the topic has no such partition)" in refused(starts={0: 0})


def test_other_topics_and_other_rows_are_refused() -> None:
    assert "was recreated" in refused(topic_id="another")
    assert "2 of its rows do not come from the topic" in refused(foreign=2)
    ahead = refused(spans={1: Span(rows=1, lowest=50, highest=50)})
    assert "has a row at offset 50 of partition 1, but the table has read only up to 50" in ahead


def test_partitions_are_written_with_the_names_of_the_columns() -> None:
    assert parse_partition("EVENT_TYPE=a,SERVER_DATE=2026-03-14", COLUMNS) == {
        "EVENT_TYPE": "a",
        "SERVER_DATE": "2026-03-14",
    }
    # In any order and case; values may have commas and equals signs; the folder of null.
    odd = parse_partition("server_date=__HIVE_DEFAULT_PARTITION__,event_type=a, b=c,d", COLUMNS)
    assert odd == {"SERVER_DATE": None, "EVENT_TYPE": "a, b=c,d"}
    assert parse_partition(partition_text(odd.items()), COLUMNS) == odd
    assert parse_partition("EVENT_TYPE=", COLUMNS) == {"EVENT_TYPE": ""}


@pytest.mark.parametrize("text", ["", "a", "KIND=a", "x,EVENT_TYPE=a", "EVENT_TYPE=a,EVENT_TYPE=b"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(HeadraceError, match="is not a partition") as error:
        parse_partition(text, COLUMNS)
    assert "EVENT_TYPE=…,SERVER_DATE=…" in error.value.remedy


def test_tables_without_partitions_say_so() -> None:
    with pytest.raises(HeadraceError, match="has no partitions"):
        parse_partition("A=b", ())


def test_one_partition_is_chosen() -> None:
    known = [
        (("EVENT_TYPE", "a"), ("SERVER_DATE", "2026-03-14")),
        (("EVENT_TYPE", "a"), ("SERVER_DATE", None)),
    ]
    assert chosen_partition(known, {"event_type": "a", "SERVER_DATE": ""}, table="t") == known[1]
    with pytest.raises(HeadraceError, match="2 partitions of table t match EVENT_TYPE=a"):
        chosen_partition(known, {"EVENT_TYPE": "a"}, table="t")
    with pytest.raises(HeadraceError, match="has no partition EVENT_TYPE=b") as error:
        chosen_partition(known, {"EVENT_TYPE": "b"}, table="t")
    assert "such as EVENT_TYPE=a,SERVER_DATE=2026-03-14" in error.value.remedy
    assert not matches(known[0], {"ANOTHER": "a"})
