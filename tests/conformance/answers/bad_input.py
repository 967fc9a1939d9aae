"""Input that is no request: what a broker answers, or that it ends the connection.

It serves on in any case.
"""

from __future__ import annotations

import struct

from tests.conformance.answers.conversation import (
    FETCH,
    METADATA,
    PRODUCE,
    Conversation,
    fetch_fields,
    produce_fields,
    scenario,
)
from tests.conformance.raw_client import request_bytes
from tests.conformance.record_batches import batch

# Of what the embedded broker serves, the versions just outside of what Apache Kafka 4.3.1 serves.
OUTSIDE = {
    0: (2, 14), 1: (3, 19), 2: (0, 12), 3: (14,), 10: (7,), 19: (1, 8), 20: (0, 7), 21: (3,), 22: (7,),
    23: (1, 5), 32: (0, 5), 33: (3,), 35: (0, 6), 37: (4,), 44: (2,), 60: (3,), 61: (1,), 75: (1,),
}  # fmt: skip


def header(api_key: int, version: int, *, client: bytes = b"\x00\x01c", flexible: bool = False) -> bytes:
    tags = b"\x00" if flexible else b""
    return struct.pack(">hhi", api_key, version, 7) + client + tags


@scenario(range(1))
def unsupported_versions(conversation: Conversation, version: int) -> None:
    """KIP-511: only ApiVersions answers in a version that it does not know, in the oldest format."""
    for wrong in (99, 5, -1, 32767):
        conversation.send_frame(f"ApiVersions {wrong}", header(18, wrong, flexible=True), reply=(18, version))
    for api_key, versions in OUTSIDE.items():
        for wrong in versions:
            label = f"api {api_key} version {wrong}"
            conversation.send_frame(label, header(api_key, wrong, flexible=True))
    for unknown in (-1, 4, 5, 6, 7, 93, 1000, 32767):
        conversation.send_frame(f"api {unknown}", header(unknown, 0))


@scenario(range(1))
def bad_frames(conversation: Conversation, version: int) -> None:
    conversation.send_bytes("negative length", struct.pack(">i", -1))
    conversation.send_bytes("length 0", struct.pack(">i", 0))
    conversation.send_bytes("most negative length", struct.pack(">i", -(2**31)))
    conversation.send_bytes("too long", struct.pack(">i", 104_857_601))
    conversation.send_bytes("longest", struct.pack(">i", 2**31 - 1))
    for count in range(1, 10):
        conversation.send_frame(f"{count} bytes", header(METADATA, 1)[:count])
    good = request_bytes(METADATA, 1, {"topics": []})
    for count in (len(good) - 1, len(good) - 3):
        conversation.send_frame(f"{count} of a request's bytes", good[:count])
    conversation.send_frame("bytes after a request", good + b"\x00\x00", reply=(METADATA, 1))
    unfinished = struct.pack(">i", len(good)) + good[:-2]
    conversation.send_bytes("end in a frame", unfinished, ended=True)
    conversation.send_bytes("end in a length", b"\x00\x00", ended=True)
    conversation.send_bytes("end at once", b"", ended=True)
    conversation.send_bytes("HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    conversation.send_bytes("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    conversation.ask(METADATA, 1, "serves on", topics=[])
    conversation.send_bytes(
        "answered though the sender has ended", frame(good), reply=(METADATA, 1), ended=True
    )
    assert version == 0


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@scenario(range(1))
def bad_headers(conversation: Conversation, version: int) -> None:
    request = b"\x00\x00\x00\x00"
    null_client = header(METADATA, 1, client=b"\xff\xff") + request
    conversation.send_frame("client id null", null_client, reply=(METADATA, 1))
    empty_client = header(METADATA, 1, client=b"\x00\x00") + request
    conversation.send_frame("client id empty", empty_client, reply=(METADATA, 1))
    negative = header(METADATA, 1, client=b"\xff\xfe") + request
    conversation.send_frame("client id of length -2", negative)
    beyond = header(METADATA, 1, client=b"\x7f\xff") + request
    conversation.send_frame("client id longer than the frame", beyond)
    not_utf8 = header(METADATA, 1, client=b"\x00\x02\xff\xfe") + request
    conversation.send_frame("client id not UTF-8", not_utf8, reply=(METADATA, 1))
    # Version 9 is flexible: compact array of 0 topics, three flags, no tagged fields.
    body = b"\x01\x00\x00\x00\x00"
    tagged = struct.pack(">hhi", METADATA, 9, 7) + b"\x00\x01c" + b"\x01\x63\x02ab" + body
    conversation.send_frame("unknown tagged field in the header", tagged, reply=(METADATA, 9))
    tagged_body = header(METADATA, 9, flexible=True) + b"\x01\x00\x00\x00\x01\x63\x02ab"
    conversation.send_frame("unknown tagged field in the request", tagged_body, reply=(METADATA, 9))
    topic = conversation.topic()
    for api_key, its_version, fields in (
        (PRODUCE, 9, produce_fields(topic, batch())),
        (PRODUCE, 13, produce_fields(topic, batch())),
        (FETCH, 12, fetch_fields(topic)),
        (FETCH, 18, fetch_fields(topic)),
    ):
        request = request_bytes(api_key, its_version, fields)
        label = f"unknown tagged field in api {api_key} version {its_version}"
        conversation.send_frame(label, request[:-1] + b"\x01\x63\x02ab", reply=(api_key, its_version))
    too_long = header(METADATA, 9, flexible=True) + b"\x01\x00\x00\x00\x01\x63\x7fab"
    conversation.send_frame("tagged field longer than the frame", too_long)
    assert version == 0


@scenario(range(1))
def bad_arrays(conversation: Conversation, version: int) -> None:
    """Counts and lengths that the frame cannot hold."""
    for count in (-2, 1, 1000, 2**31 - 1):
        body = header(METADATA, 1) + struct.pack(">i", count)
        conversation.send_frame(f"{count} topics", body)
    for length in (-2, 100, 32767):
        body = header(METADATA, 1) + struct.pack(">ih", 1, length) + b"ab"
        conversation.send_frame(f"name of length {length}", body)
    for count in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x7f"):
        body = header(METADATA, 9, flexible=True) + count
        conversation.send_frame(f"compact count {count.hex()}", body)
    null_name = header(METADATA, 1) + struct.pack(">ih", 1, -1)
    conversation.send_frame("null name", null_name)
    null_array = header(METADATA, 0) + struct.pack(">i", -1)
    conversation.send_frame("null array in version 0", null_array, reply=(METADATA, 0))
    assert version == 0


@scenario(range(3, 14))
def mutilated_produce(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    whole = request_bytes(PRODUCE, version, produce_fields(topic, batch()))
    for cut in (1, 5, 40, 70, 80, len(whole) - 20):
        conversation.send_frame(f"without {cut} bytes", whole[:-cut])
    conversation.ask(FETCH, 17, "log", **fetch_fields(topic))


@scenario(range(4, 19))
def mutilated_fetch(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    whole = request_bytes(FETCH, version, fetch_fields(topic))
    for cut in (1, 3, 8, 20, len(whole) - 20):
        conversation.send_frame(f"without {cut} bytes", whole[:-cut])
