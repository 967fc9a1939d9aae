"""Error codes about transactions that clients of old versions do not know, in the words that they do know.

Never knows which API it is asked for: each says from which version on its clients know a code.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headrace.broker.api import Context


def fenced_as_known(error: ErrorCode, context: Context, known_from: int) -> ErrorCode:
    """PRODUCER_FENCED (KIP-588) as clients before `known_from` call it."""
    if error is ErrorCode.producer_fenced and context.version < known_from:
        return ErrorCode.invalid_producer_epoch
    return error
