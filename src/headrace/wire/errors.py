"""What can be wrong with bytes that came over the wire or from a file. Never says what to do about it."""

from __future__ import annotations


class WireError(Exception):
    """The bytes do not have the shape that the protocol asks for."""


class MalformedRequestError(WireError):
    """A request that ends too early, or whose lengths contradict each other."""


class FrameTooLargeError(WireError):
    """A frame that announces more bytes than the limit, or a negative number of them."""


class CorruptBatchError(WireError):
    """A record batch whose length, checksum or content cannot be right."""


class UnsupportedMagicError(WireError):
    """A record set in the formats of before Kafka 0.11 (magic 0 and 1), or in one that nobody knows."""
