"""What a client of `POST /events` sees, and what then stands in a real log."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import warnings
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import BrokerProcess
from tests.freezing import freeze
from tests.http.events.driving import (
    JSON,
    LINES,
    Answer,
    ask,
    end_offsets,
    post,
    read_topic,
    running,
    settings_for,
)
from tests.ports import free_port


def post_all(settings: Any, *bodies: tuple[bytes, str]) -> list[Answer]:
    async def scenario() -> list[Answer]:
        async with running(settings) as application:
            return [await post(application, body, content_type) for body, content_type in bodies]

    return asyncio.run(scenario())


def test_events_stand_in_the_log_as_posted_with_key_and_time_of_arrival(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    before = time.time_ns() // 1_000_000
    single = b'  {"User_ID" : "ann",\t"x":1.50, "z":"\\u00e4"}\r\n'
    array = '[ {"user_id":7,"ä":"é"} ,{"other":null,"a":1,"a":2}]'.encode()
    lines = b'{"USER_ID":""}\n\n {"User_ID":null} \r\n'
    answers = post_all(
        settings_for(broker.bootstrap, topic_name),
        (single, JSON),
        (array, JSON + "; charset=UTF-8"),
        (lines, LINES),
    )
    after = time.time_ns() // 1_000_000

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.offsets() for answer in answers] == [
        [(0, 0, 0)],
        [(0, 0, 1), (1, 0, 2)],
        [(0, 0, 3), (1, 0, 4)],
    ]
    assert answers[0].body["accepted"][0]["topic"] == topic_name
    records = read_topic(broker.bootstrap, topic_name, 0, 5)
    assert [(record.key(), record.value()) for record in records] == [
        (b"ann", b'{"User_ID" : "ann",\t"x":1.50, "z":"\\u00e4"}'),
        (b"7", '{"user_id":7,"ä":"é"}'.encode()),
        (None, b'{"other":null,"a":1,"a":2}'),
        (b"", b'{"USER_ID":""}'),
        (None, b'{"User_ID":null}'),
    ]
    for record in records:
        assert before <= record.timestamp()[1] <= after


def test_the_first_event_creates_the_topic_and_a_user_stays_in_one_partition(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    events = [{"User_ID": f"user-{number % 10}", "n": number} for number in range(200)]
    body = json.dumps(events).encode()
    (answer,) = post_all(settings_for(broker.bootstrap, topic_name, default_partitions=3), (body, JSON))
    assert answer.status == 200
    assert [index for index, _, _ in answer.offsets()] == list(range(200))
    homes: dict[str, set[int]] = {}
    for index, partition, _ in answer.offsets():
        homes.setdefault(events[index]["User_ID"], set()).add(partition)
    assert all(len(partitions) == 1 for partitions in homes.values())
    ends = end_offsets(broker.bootstrap, topic_name, 3)
    assert sum(ends) == 200
    assert sum(1 for end in ends if end) > 1
    for index, partition, offset in answer.offsets():
        if offset == 0:
            (first,) = read_topic(broker.bootstrap, topic_name, partition, 1)
            assert json.loads(first.value() or b"") == events[index]


def test_bad_events_are_named_and_harm_no_other(broker: EmbeddedBroker, topic_name: str) -> None:
    settings = settings_for(broker.bootstrap, topic_name, max_event_bytes=30)
    array = b'[{"n":0}, 1, {"n":NaN}, {"n":3}, {"n":"' + b"x" * 30 + b'"}]'
    lines = b'{"n":0}\nbroken\n{"n":2}\n{"n":\n'
    answers = post_all(
        settings, (array, JSON), (lines, LINES), (b'{"n":', JSON), (b'{"n":"' + b"x" * 30 + b'"}', JSON)
    )

    assert [answer.status for answer in answers] == [400, 400, 400, 413]
    mixed, by_line, single, large = answers
    assert mixed.rejected() == [(1, "bad_event"), (2, "bad_event"), (4, "event_too_large")]
    assert [index for index, _, _ in mixed.offsets()] == [0, 3]
    assert mixed.body["error"] == "bad_event"
    assert mixed.body["message"] == "2 of 5 events accepted, 3 rejected."
    assert all(each["message"] and each["remedy"] for each in mixed.body["rejected"])
    assert by_line.rejected() == [(1, "bad_event"), (3, "bad_event")]
    assert [index for index, _, _ in by_line.offsets()] == [0, 2]
    assert single.rejected() == [(0, "bad_event")]
    assert large.rejected() == [(0, "event_too_large")]
    values = [record.value() for record in read_topic(broker.bootstrap, topic_name, 0, 4)]
    assert values == [b'{"n":0}', b'{"n":3}', b'{"n":0}', b'{"n":2}']
    assert end_offsets(broker.bootstrap, topic_name, 1) == [4]


def test_of_an_unreadable_array_nothing_is_accepted(broker: EmbeddedBroker, topic_name: str) -> None:
    broken, empty = post_all(
        settings_for(broker.bootstrap, topic_name), (b'[{"n":0},{"n":}]', JSON), (b" [] ", JSON)
    )
    assert broken.status == 400
    assert broken.rejected() == [(1, "bad_event")]
    assert "byte 14" in broken.body["message"]
    assert broken.body["accepted"] == []
    assert (empty.status, empty.body) == (200, {"accepted": [], "rejected": [], "unknown": []})
    assert (
        topic_name not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=120).topics
    )


def test_an_event_of_the_largest_size_is_taken_and_one_byte_more_is_not(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_name)
    frame = b'{"User_ID":""}'
    largest = b'{"User_ID":"' + b"u" * (settings.max_event_bytes - len(frame)) + b'"}'
    assert len(largest) == settings.max_event_bytes
    answers = post_all(settings, (largest, JSON), (largest + b" ", JSON), (b'{"x":1,' + largest[1:], JSON))
    assert [answer.status for answer in answers] == [200, 200, 413]
    assert read_topic(broker.bootstrap, topic_name, 0, 1)[0].value() == largest


def test_a_topic_deleted_while_running_is_made_again_by_the_next_event(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    body = json.dumps([{"User_ID": str(number)} for number in range(20)]).encode()

    async def scenario() -> list[Answer]:
        answers = []
        settings = settings_for(broker.bootstrap, topic_name, default_partitions=4)
        async with running(settings) as application:
            for _ in range(3):
                answers.append(await post(application, body))
                assert 0 in {offset for _, _, offset in answers[-1].offsets()}
                await asyncio.to_thread(admin.delete_topics([topic_name])[topic_name].result)
            return [*answers, await post(application, body)]

    answers = asyncio.run(scenario())
    # Seen twice in some 800 re-creations, the reason not found yet: a few events of one post come back as
    # unknown. More than one such post in a row of four is another fault.
    reasons = [each["message"] for answer in answers for each in answer.body["unknown"]]
    assert [answer.status for answer in answers].count(200) >= 3, reasons
    for reason in set(reasons):
        warnings.warn(f"an event was left unknown: {reason}", stacklevel=1)
    for answer in answers:
        assert answer.body["rejected"] == []
        assert len(answer.offsets()) + len(answer.body["unknown"]) == 20
    accepted = len(answers[-1].offsets())
    assert accepted <= sum(end_offsets(broker.bootstrap, topic_name, 4)) <= 20


def test_a_log_that_is_not_there_is_said_in_bounded_time_and_nothing_was_sent(topic_name: str) -> None:
    settings = settings_for(f"127.0.0.1:{free_port()}", topic_name, ingest_timeout_ms=300)

    async def scenario() -> tuple[list[Answer], Answer]:
        async with running(settings) as application:
            answers = await asyncio.gather(*(post(application, b'[{"n":1},2]') for _ in range(5)))
            return answers, await ask(application, "GET", "/health")

    answers, health = asyncio.run(scenario())
    for answer in answers:
        assert answer.status == 503
        assert answer.rejected() == [(0, "log_unavailable"), (1, "bad_event")]
        assert answer.body["unknown"] == []
        assert answer.body["error"] == "log_unavailable"
        assert "headrace status" in answer.body["rejected"][0]["remedy"]
    assert health.status == 503
    assert health.body["error"] == "log_unavailable"


def test_a_log_that_stops_answering_leaves_events_unknown_and_says_so(
    broker_process: BrokerProcess, topic_name: str
) -> None:
    settings = settings_for(broker_process.bootstrap, topic_name, ingest_timeout_ms=1_000)

    async def scenario() -> tuple[Answer, Answer]:
        async with running(settings) as application:
            # A busy machine may not make the topic within the second.
            assert (await _until_taken(application, b'{"n":0}')).status == 200
            freeze(broker_process.pid)
            try:
                unanswered = await post(application, b'[{"n":1},{"n":2}]')
            finally:
                os.kill(broker_process.pid, signal.SIGCONT)
            return unanswered, await _until_taken(application, b'{"n":3}')

    unanswered, taken = asyncio.run(scenario())
    assert unanswered.status == 503
    assert unanswered.body["accepted"] == []
    assert [each["index"] for each in unanswered.body["unknown"]] == [0, 1]
    assert "may still be in the log" in unanswered.body["unknown"][0]["message"]
    assert unanswered.body["message"] == "0 of 2 events accepted, 0 rejected, 2 unknown."
    assert taken.status == 200


async def _until_taken(application: Any, body: bytes) -> Answer:
    deadline = time.monotonic() + 120
    while True:
        answer = await post(application, body)
        if answer.status == 200 or time.monotonic() > deadline:
            return answer


def test_a_body_that_comes_in_pieces_is_put_together(broker: EmbeddedBroker, topic_name: str) -> None:
    async def scenario() -> Answer:
        async with running(settings_for(broker.bootstrap, topic_name)) as application:
            return await post(application, b'{"n":1}\n{"n":2}\n', LINES, chunk=3)

    assert asyncio.run(scenario()).offsets() == [(0, 0, 0), (1, 0, 1)]


class TestRequestsThatAreRefused:
    """None of these needs a log: they are refused before one is asked."""

    @staticmethod
    def ask(
        method: str,
        path: str,
        messages: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
        **changes: Any,
    ) -> Answer:
        sent = {"content-type": JSON, **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]

        async def scenario() -> Answer:
            settings = settings_for(f"127.0.0.1:{free_port()}", "events", ingest_timeout_ms=300, **changes)
            async with running(settings) as application:
                return await ask(application, method, path, messages or [], pairs)

        return asyncio.run(scenario())

    @pytest.mark.parametrize(
        ("method", "path", "allow"), [("GET", "/events", "POST"), ("POST", "/health", "GET")]
    )
    def test_wrong_method(self, method: str, path: str, allow: str) -> None:
        answer = self.ask(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allow)
        assert answer.body["error"] == "method_not_allowed"

    @pytest.mark.parametrize("path", ["/", "/event", "/events/", "/events/1"])
    def test_unknown_path(self, path: str) -> None:
        answer = self.ask("POST", path)
        assert (answer.status, answer.body["error"]) == (404, "no_such_page")

    @pytest.mark.parametrize(
        "headers",
        [
            {"content-type": ""},
            {"content-type": "text/plain"},
            {"content-type": "application/x-www-form-urlencoded"},
            {"content-type": "text/csv"},
            {"content-type": "application/json; charset=latin-1"},
            {"content-type": "application/json", "content-encoding": "gzip"},
        ],
    )
    def test_unknown_content_type(self, headers: dict[str, str]) -> None:
        answer = self.ask("POST", "/events", headers=headers)
        assert (answer.status, answer.body["error"]) == (415, "unsupported_media_type")
        assert answer.body["remedy"]

    def test_empty_body(self) -> None:
        answer = self.ask("POST", "/events", [{"type": "http.request"}])
        assert (answer.status, answer.body["error"]) == (400, "bad_request")

    def test_a_large_body_is_refused_by_its_announced_length_before_it_is_read(self) -> None:
        # There is no message to receive: reading would fail.
        answer = self.ask("POST", "/events", headers={"content-length": "101"}, max_request_bytes=100)
        assert (answer.status, answer.body["error"]) == (413, "request_too_large")

    def test_a_large_body_of_unknown_length_is_refused_as_soon_as_it_is_too_large(self) -> None:
        pieces = [{"type": "http.request", "body": b" " * 60, "more_body": True} for _ in range(2)]
        answer = self.ask("POST", "/events", pieces, max_request_bytes=100)
        assert (answer.status, answer.body["error"]) == (413, "request_too_large")

    @pytest.mark.parametrize(
        "messages",
        [
            [{"type": "http.request", "body": b'{"n":1}\n', "more_body": True}, {"type": "http.disconnect"}],
            [{"type": "http.request", "body": b'{"n":1}\n', "more_body": False}],
        ],
    )
    def test_a_body_that_did_not_arrive_whole_is_not_written(self, messages: list[dict[str, Any]]) -> None:
        answer = self.ask("POST", "/events", messages, {"content-type": LINES, "content-length": "16"})
        assert (answer.status, answer.body["error"]) == (400, "bad_request")
        assert "ended before" in answer.body["message"]
