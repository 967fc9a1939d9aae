"""What an expression is compiled to: instructions that say which character may come next.

Invariants: a program is at most `LONGEST_PROGRAM` instructions; behind the last one is the end, a match.
Never says anything about groups or greed, which do not change whether a whole name matches.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headrace.coordination.expressions.characters import CharacterSet
from headrace.coordination.expressions.errors import InvalidExpressionError

LONGEST_PROGRAM: Final = 5_000


class Assertion(Enum):
    """Where a position must be."""

    START = auto()
    END = auto()
    WORD_BOUNDARY = auto()
    NO_WORD_BOUNDARY = auto()


@dataclass(frozen=True, slots=True)
class Take:
    """One character of this set, then on."""

    characters: CharacterSet


@dataclass(frozen=True, slots=True)
class Require:
    """On, if the position is there."""

    assertion: Assertion


@dataclass(frozen=True, slots=True)
class Fork:
    """On at each of these instructions, counted from this one."""

    steps: tuple[int, ...]


Instruction = Take | Require | Fork
Program = tuple[Instruction, ...]


def alternatives(first: Program, second: Program) -> Program:
    return limited((Fork((1, len(first) + 2)), *first, Fork((len(second) + 1,)), *second))


def optional(part: Program) -> Program:
    return limited((Fork((1, len(part) + 1)), *part))


def any_number(part: Program) -> Program:
    return limited((Fork((1, len(part) + 2)), *part, Fork((-len(part) - 1,))))


def at_least_once(part: Program) -> Program:
    return limited((*part, Fork((-len(part), 1))))


def repeated(part: Program, least: int, most: int | None) -> Program:
    """`part` so many times; without `most` any number more."""
    if len(part) * max(least, most or 0) > LONGEST_PROGRAM:
        raise InvalidExpressionError("expression is too large")
    if most is None:
        return limited(part * least + any_number(part))
    tail: Program = ()
    for _ in range(most - least):
        tail = optional(part + tail)
    return limited(part * least + tail)


def limited(program: Program) -> Program:
    """The program. Raises InvalidExpressionError if it is too long."""
    if len(program) > LONGEST_PROGRAM:
        raise InvalidExpressionError("expression is too large")
    return program
