"""`headrace dlq list` and `show` on a real log."""

from __future__ import annotations

import base64

import pytest
from confluent_kafka import Producer

from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker
from tests.dead_letters.letters import REASON, Letters
from tests.query.records import create_topic, group_names, produce


def test_topics_with_their_counts(letters: Letters) -> None:
    letters.add(b"one", offset=4)
    letters.add(b"two", offset=5)
    letters.run("repair", letters.topic, "--at", "0:0", "--replace", "one", "1")
    (row,) = [row for row in letters.answer("list") if row["topic"] == letters.topic]
    assert row == {"topic": letters.topic, "entries": 2, "repaired": 1}
    assert letters.source not in [row["topic"] for row in letters.answer("list")]
    assert "entries" in letters.run("list").stdout


def test_the_entries_of_a_topic(letters: Letters) -> None:
    letters.add(b"no json", offset=4, attempts=3)
    letters.add(b"\xff\x00", offset=5, key=None)
    letters.add(None, offset=6)
    first, second, third = letters.answer("list", letters.topic)
    assert first.pop("timestamp_ms") > 0
    assert first == {
        "topic": letters.topic,
        "partition": 0,
        "offset": 0,
        "reason": REASON,
        "query": "CSAS_EVENTS_AVRO_1",
        "position": "line 3, column 8",
        "source": {"topic": letters.source, "topic_id": "someid", "partition": 0, "offset": 4},
        "attempts": 3,
        "repaired": None,
        "key": "u1",
        "value": "no json",
        "value_bytes": 7,
    }
    assert (second["key"], second["value"], second["value_bytes"]) == (None, "ff 00", 2)
    assert (third["value"], third["value_bytes"]) == ("null", None)


def test_entries_are_shown_short_and_never_as_markup(letters: Letters) -> None:
    letters.add(b"[red]line\nand" + b"x" * 500, offset=1)
    (entry,) = letters.answer("list", letters.topic)
    assert entry["value"].startswith("[red]line\\nandxxx")
    assert entry["value"].endswith("x…")
    assert len(entry["value"]) == 80
    shown = letters.run("list", letters.topic).stdout
    assert "[red]" in shown.replace("\n", "").replace("│", "").replace(" ", "")


def test_the_newest_entries_and_how_many_there_are(letters: Letters) -> None:
    for number in range(5):
        letters.add(str(number).encode(), offset=number)
    result = letters.run("list", letters.topic, "--limit", "2", "--json")
    assert [entry["value"] for entry in letters.answer("list", letters.topic, "--limit", "2")] == ["3", "4"]
    assert "the newest 2 of 5 entries" in result.stderr


def test_markers_of_transactions_are_not_entries(letters: Letters, broker: EmbeddedBroker) -> None:
    letters.add(b"first", offset=0)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": letters.topic})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        headers = letters.headers(offset=number)
        producer.produce(letters.topic, str(number), partition=0, headers=headers)
        producer.commit_transaction(30)
    (row,) = [row for row in letters.answer("list") if row["topic"] == letters.topic]
    assert row["entries"] == 4
    newest = letters.answer("list", letters.topic, "--limit", "3")
    assert [entry["value"] for entry in newest] == ["0", "1", "2"], "three of seven offsets would be two"


def test_a_topic_without_entries(letters: Letters) -> None:
    assert letters.answer("list", letters.topic) == []
    assert letters.run("list", letters.topic).stdout == "no entries\n"


def test_one_entry_whole(letters: Letters) -> None:
    value = b'{"a": "' + b"x" * 300
    letters.add(value, offset=7, original=(("trace", b"t-1"),))
    shown = letters.run("show", letters.topic, "0:0").stdout
    for part in (
        REASON,
        "CSAS_EVENTS_AVRO_1, line 3, column 8",
        f"{letters.source} 0:7",
        "trace = t-1",
        value.decode(),
    ):
        assert part in shown
    entry = letters.answer("show", letters.topic, "0:0")
    assert entry["value"] == value.decode()
    assert base64.b64decode(entry["value_base64"]) == value
    assert ["headrace-original-trace", "t-1"] in entry["headers"]


def test_the_value_alone_byte_for_byte(letters: Letters) -> None:
    value = bytes(range(256))
    letters.add(value, offset=7)
    assert letters.run("show", letters.topic, "0:0", "--value").stdout_bytes == value


def test_somebody_elses_record_is_shown_with_what_it_has(letters: Letters) -> None:
    produce(letters.broker.bootstrap, letters.topic, [{"value": b"stray", "partition": 1}])
    (entry,) = letters.answer("list", letters.topic)
    assert (entry["partition"], entry["reason"], entry["source"]) == (1, None, None)
    assert "unknown" in letters.run("show", letters.topic, "1:0").stdout


def test_looking_leaves_no_group_behind(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    letters.run("list", letters.topic)
    assert "headrace-dead-letters" not in group_names(letters.broker.bootstrap)


@pytest.mark.parametrize("command", [["list"], ["show", "0:0"], ["repair"]])
def test_a_topic_that_is_not_there(letters: Letters, command: list[str]) -> None:
    with pytest.raises(HeadraceError, match="no topic `nowhere_dlq`") as raised:
        letters.run(command[0], "nowhere_dlq", *command[1:])
    assert letters.topic in raised.value.remedy


@pytest.mark.parametrize("command", [["list"], ["show", "0:0"], ["repair"]])
def test_a_topic_of_another_kind(letters: Letters, command: list[str]) -> None:
    with pytest.raises(HeadraceError, match=f"`{letters.source}` is not a dead-letter topic") as raised:
        letters.run(command[0], letters.source, *command[1:])
    assert letters.topic in raised.value.remedy


def test_a_topic_of_another_kind_without_dead_letters(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    with pytest.raises(HeadraceError, match="`headrace dlq list` lists the dead-letter topics"):
        Letters(broker=broker, source=topic_name).run("list", topic_name)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("0:9", "no entry at 0:9: partition 0 has offsets 0 to 0"),
        ("1:0", "no entry at 1:0: partition 1 is empty"),
        ("7:0", "has no partition 7. Its partitions are 0 to 1"),
    ],
)
def test_a_place_that_is_not_there(letters: Letters, at: str, expected: str) -> None:
    letters.add(b"x", offset=1)
    for arguments in (["show", letters.topic, at], ["repair", letters.topic, "--at", at]):
        with pytest.raises(HeadraceError, match=expected):
            letters.run(*arguments)
    assert letters.sent() == []
