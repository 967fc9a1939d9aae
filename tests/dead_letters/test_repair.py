"""`headrace dlq repair` on a real log: what goes back, what does not, and what is remembered."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.dead_letters.notes import NOTES_TOPIC
from headrace.dead_letters.sending import Sender
from headrace.testing import EmbeddedBroker
from tests.dead_letters.letters import Letters, with_letters
from tests.query.records import delete_topic, produce, topic_names


def script(folder: Path, text: str) -> str:
    file = folder / "editor.sh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_a_repaired_record_goes_back_to_its_partition_with_key_and_headers(letters: Letters) -> None:
    letters.add(b'{"a": 1', offset=4, partition=1, original=(("trace", b"t"), ("nothing", None)))
    before = int(time.time() * 1000)
    result = letters.run("repair", letters.topic, "--replace", "1", "1}")
    assert result.stdout == f"{letters.topic} 0:0: sent, to {letters.source} 1:0\n1 sent\n"
    (record,) = letters.sent()
    assert (record.partition(), record.key(), record.value()) == (1, b"u1", b'{"a": 1}')
    assert record.headers() == [
        ("trace", b"t"),
        ("nothing", None),
        ("headrace-rowtime", b"1700000000000"),
        ("headrace-repaired-from", f"{letters.topic}/0/0".encode()),
        ("headrace-attempts", b"1"),
    ]
    assert record.timestamp()[1] >= before, "the log keeps it from now on"


def test_without_an_edit_records_go_back_as_they_are(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    letters.add(None, offset=2, key=None)
    letters.run("repair", letters.topic)
    assert [(record.key(), record.value()) for record in letters.sent()] == [(b"u1", b"x"), (None, None)]


def test_running_it_twice_does_not_send_twice(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    letters.run("repair", letters.topic)
    result = letters.run("repair", letters.topic)
    assert f"repaired before, sent to {letters.source} 0:0 at 20" in result.stdout
    assert result.exit_code == 0
    letters.run("repair", letters.topic, "--at", "0:0")
    assert letters.sent_values() == [b"x"]
    (entry,) = letters.answer("list", letters.topic)
    assert entry["repaired"]["sent_to"] == f"{letters.source} 0:0"
    letters.run("repair", letters.topic, "--again")
    assert letters.sent_values() == [b"x", b"x"]


def test_a_record_that_several_queries_could_not_read_goes_back_once(letters: Letters) -> None:
    letters.add(b"x", offset=1, query="CSAS_A_1")
    letters.add(b"x", offset=1, query="CTAS_B_2")
    letters.add(b"y", offset=2, query="CSAS_A_1")
    result = letters.run("repair", letters.topic)
    assert "0:1: same record, 0:0 is for the same record" in result.stdout
    assert letters.sent_values() == [b"x", b"y"]
    letters.run("repair", letters.topic, "--at", "0:1")
    assert letters.sent_values() == [b"x", b"y"]


def test_only_the_named_ones(letters: Letters) -> None:
    for number in range(4):
        letters.add(str(number).encode(), offset=number)
    letters.run("repair", letters.topic, "--at", "0:3", "--at", "0:1", "--at", "0:3")
    assert letters.sent_values() == [b"3", b"1"]


def test_one_wrong_place_among_right_ones_sends_nothing(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    with pytest.raises(HeadraceError, match="no entry at 0:5"):
        letters.run("repair", letters.topic, "--at", "0:0", "--at", "0:5")
    with pytest.raises(HeadraceError, match="`first` is not the place"):
        letters.run("repair", letters.topic, "--at", "0:0", "--at", "first")
    assert letters.sent() == []


def test_a_value_from_a_file(letters: Letters, tmp_path: Path) -> None:
    letters.add(b"broken", offset=1)
    letters.add(b"other", offset=2)
    file = tmp_path / "value"
    file.write_bytes(b"\x00good\n")
    letters.run("repair", letters.topic, "--at", "0:0", "--set-value", str(file))
    assert letters.sent_values() == [b"\x00good\n"]


@pytest.mark.parametrize(("places", "count"), [([], "none"), (["--at", "0:0", "--at", "0:1"], "2")])
def test_one_value_is_for_one_letter(letters: Letters, tmp_path: Path, places: list[str], count: str) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"good")
    with pytest.raises(HeadraceError, match=f"but {count} are given. Name one with --at"):
        letters.run("repair", letters.topic, *places, "--set-value", str(file))


def test_a_file_that_cannot_be_read(letters: Letters, tmp_path: Path) -> None:
    letters.add(b"x", offset=1)
    with pytest.raises(HeadraceError, match=r"nowhere.txt with the new value cannot be read: No such file"):
        letters.run("repair", letters.topic, "--at", "0:0", "--set-value", str(tmp_path / "nowhere.txt"))


def test_what_replacing_leaves_as_it_was_is_not_sent(letters: Letters) -> None:
    letters.add(b"a and a", offset=1)
    letters.add(b"b", offset=2)
    letters.add(None, offset=3)
    result = letters.run("repair", letters.topic, "--replace", "a", "ä")
    assert letters.sent_values() == ["ä änd ä".encode()]
    assert "0:1: unchanged" in result.stdout
    assert result.stdout.endswith("2 unchanged, 1 sent\n")
    assert result.exit_code == 0
    with pytest.raises(HeadraceError, match="nothing to search for"):
        letters.run("repair", letters.topic, "--replace", "", "x")


def test_a_command_filters_each_value_and_one_that_fails_stops_no_other(letters: Letters) -> None:
    for number, value in enumerate([b"one", b"bad", b"two"]):
        letters.add(value, offset=number)
    filter_ = "read v; [ $v = bad ] && { echo no good >&2; exit 3; }; printf %s $v | tr a-z A-Z"
    result = letters.run("repair", letters.topic, "--command", filter_)
    assert letters.sent_values() == [b"ONE", b"TWO"]
    assert result.exit_code == 1
    assert "0:1: failed" in result.stdout
    assert "exited with code 3: no good" in result.stdout
    letters.run("repair", letters.topic, "--command", "cat; echo")
    assert letters.sent_values() == [b"ONE", b"TWO", b"bad\n"], "what failed can be tried again"


def test_an_editor_on_each_value(letters: Letters, tmp_path: Path) -> None:
    letters.add(b"broken", offset=1)
    letters.add(b"fine", offset=2)
    letters.add(b"broken\n", offset=3)
    # As editors do, it ends the last line.
    chosen = script(tmp_path, 'sed \'s/broken/mended/\' "$2" > "$2.new"; echo >> "$2.new"; mv "$2.new" "$2"')
    result = letters.run("repair", letters.topic, "--edit", env={"EDITOR": f"{chosen} --wait", "VISUAL": ""})
    assert letters.sent_values() == [b"mended", b"mended\n\n"]
    assert "0:1: unchanged" in result.stdout


def test_an_editor_that_fails_sends_nothing(letters: Letters, tmp_path: Path) -> None:
    letters.add(b"one", offset=1)
    letters.add(b"two", offset=2)
    chosen = script(tmp_path, 'grep -q two "$1" && exit 1; echo more >> "$1"')
    with pytest.raises(HeadraceError, match=r"editor.sh` exited with code 1. Nothing was sent"):
        letters.run("repair", letters.topic, "--edit", env={"VISUAL": chosen})
    with pytest.raises(HeadraceError, match=r"`no-such-editor` cannot be started: No such file"):
        letters.run("repair", letters.topic, "--edit", env={"VISUAL": "no-such-editor"})
    with pytest.raises(HeadraceError, match="neither VISUAL nor EDITOR has a value"):
        letters.run("repair", letters.topic, "--edit", env={"VISUAL": "", "EDITOR": ""})
    assert letters.sent() == []


def test_two_ways_to_edit_are_one_too_many(letters: Letters) -> None:
    with pytest.raises(HeadraceError, match="--edit and --command are given together"):
        letters.run("repair", letters.topic, "--edit", "--command", "cat")


def test_a_dry_run_shows_and_sends_nothing(letters: Letters) -> None:
    letters.add(b'{"a": 1', offset=1)
    result = letters.run("repair", letters.topic, "--replace", "1", "1}", "--dry-run")
    assert f"would be sent, to {letters.source}" in result.stdout
    assert '  - {"a": 1\n  + {"a": 1}\n1 would be sent\n' in result.stdout
    assert letters.sent() == []
    assert letters.answer("list", letters.topic)[0]["repaired"] is None


def test_more_than_a_batch(letters: Letters) -> None:
    produce(
        letters.broker.bootstrap,
        letters.topic,
        [{"value": b"%d" % n, "partition": n % 2, "headers": letters.headers(n)} for n in range(250)],
    )
    result = letters.run("repair", letters.topic)
    assert result.stdout.endswith("250 sent\n")
    assert sorted(int(value or b"") for value in letters.sent_values()) == list(range(250))
    assert "250 repaired before" in letters.run("repair", letters.topic).stdout


def test_a_crash_between_sending_and_noting_sends_again(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.add(b"x", offset=1)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sender, "_note", crash)
        assert letters.run("repair", letters.topic).exit_code == 130
    assert letters.sent_values() == [b"x"]
    letters.run("repair", letters.topic)
    assert letters.sent_values() == [b"x", b"x"], "at least once"
    letters.run("repair", letters.topic)
    assert letters.sent_values() == [b"x", b"x"]


def test_a_record_that_fails_again_is_another_dead_letter_and_can_be_repaired(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    letters.run("repair", letters.topic, "--replace", "x", "y")
    (sent,) = letters.sent()
    letters.add(sent.value(), offset=sent.offset(), attempts=2, original=tuple(sent.headers()))
    letters.run("repair", letters.topic, "--replace", "y", "z")
    second = letters.sent()[1]
    assert second.value() == b"z"
    assert second.headers() == [
        ("headrace-rowtime", b"1700000000000"),
        ("headrace-repaired-from", f"{letters.topic}/0/1".encode()),
        ("headrace-attempts", b"2"),
    ]


def test_somebody_elses_record_cannot_go_back(letters: Letters) -> None:
    produce(letters.broker.bootstrap, letters.topic, [{"value": b"stray", "partition": 0}])
    letters.add(b"x", offset=1)
    result = letters.run("repair", letters.topic)
    assert result.exit_code == 1
    assert "0:0: failed, it is not the record of a source" in result.stdout
    assert letters.sent_values() == [b"x"]


def test_a_source_that_is_gone_is_named(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    delete_topic(letters.broker.bootstrap, letters.source)
    with pytest.raises(HeadraceError, match=f"no topic `{letters.source}`, which these dead"):
        letters.run("repair", letters.topic)
    assert letters.source not in topic_names(letters.broker.bootstrap)


def test_a_source_with_fewer_partitions_takes_the_record_by_its_key(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    letters = with_letters(broker, topic_name, partitions=1)
    letters.add(b"x", offset=1, partition=5)
    letters.run("repair", letters.topic)
    assert [record.partition() for record in letters.sent()] == [0]


def test_what_the_source_does_not_take_is_said_and_can_be_repaired_later(letters: Letters) -> None:
    letters.add(b"x", offset=1)
    letters.add(b"y", offset=2)
    large = "head -c 3000000 /dev/zero | tr '\\0' x"
    result = letters.run("repair", letters.topic, "--at", "0:0", "--command", large)
    assert result.exit_code == 1
    assert f"failed, {letters.source} did not accept it: " in result.stdout
    assert letters.run("repair", letters.topic).stdout.endswith("2 sent\n")


def test_letters_of_another_source_go_back_to_theirs(letters: Letters, broker: EmbeddedBroker) -> None:
    """A join's second source has its dead letters in the topic of the first."""
    other = with_letters(broker, f"{letters.source}_b")
    letters.add(b"x", offset=1, source=other.source)
    letters.run("repair", letters.topic)
    assert (letters.sent(), other.sent_values()) == ([], [b"x"])


def test_a_note_that_is_none_is_not_passed_over_until_it_is_removed(
    broker_of_its_own: EmbeddedBroker,
) -> None:
    letters = with_letters(broker_of_its_own, "events")
    letters.add(b"x", offset=1)
    letters.run("repair", letters.topic)
    produce(broker_of_its_own.bootstrap, NOTES_TOPIC, [{"key": b"k", "value": b"?"}])
    with pytest.raises(HeadraceError, match=rf"{NOTES_TOPIC} 0:1 is not a note of a repair"):
        letters.run("repair", letters.topic)
    produce(broker_of_its_own.bootstrap, NOTES_TOPIC, [{"key": b"k", "value": None}])
    assert "1 repaired before" in letters.run("repair", letters.topic).stdout


@pytest.mark.long  # five seconds of patience
def test_a_log_that_does_not_answer_is_said() -> None:
    gone = EmbeddedBroker()
    with gone:
        pass
    with pytest.raises(HeadraceError, match="could not"):
        Letters(broker=gone, source="events").run("list")
