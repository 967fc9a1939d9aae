"""Errors for arguments that a function does not support: not constant, or without a counterpart in Spark."""

from __future__ import annotations

from headrace.pipeline.expressions.functions.function import Call
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.position import NOWHERE


def refused(message: str, remedy: str = "") -> UnsupportedError:
    """The error for an argument. The compiler of the call adds the position."""
    return UnsupportedError(message, NOWHERE, remedy=remedy)


def positive_constant(call: Call, name: str, function: str) -> int:
    found = call.integer(name)
    if found is None or found < 1:
        raise refused(f"{function} needs a positive number as {name}, and a constant one.")
    return found
