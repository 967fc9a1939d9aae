"""Replaces error codes about transactions that clients of old versions do not know.

Never knows the API: the caller says from which version on its clients know a code.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headrace.broker.api import Context


def fenced_as_known(error: ErrorCode, context: Context, known_from: int) -> ErrorCode:
    """The error, with PRODUCER_FENCED (KIP-588) replaced for clients before `known_from`."""
    if error is ErrorCode.producer_fenced and context.version < known_from:
        return ErrorCode.invalid_producer_epoch
    return error
