"""Errors in bytes from the wire or from a file. Never says how to handle them."""

from __future__ import annotations


class WireError(Exception):
    """The bytes do not follow the protocol."""


class MalformedRequestError(WireError):
    """A request is truncated, or its lengths contradict each other."""


class FrameTooLargeError(WireError):
    """A frame announces more bytes than the limit, or a negative number."""


class CorruptBatchError(WireError):
    """The length, checksum or content of a record batch is wrong."""


class UnsupportedMagicError(WireError):
    """A record set has a format from before Kafka 0.11 (magic 0 and 1), or an unknown one."""
