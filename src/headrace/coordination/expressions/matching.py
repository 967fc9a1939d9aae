"""Whether a name matches an expression as a whole, in time linear in the name.

All ways through the program are followed at once, as a set of instructions, so nothing is tried twice.
What a set and a character lead to is remembered, up to a bound: the second topic of a thousand costs
little. Never backtracks.
"""

from functools import lru_cache
from typing import Final

from headrace.coordination.expressions.characters import WORD
from headrace.coordination.expressions.parsing import parse
from headrace.coordination.expressions.program import Assertion, Fork, Program, Require, Take

# Beyond these the table is thrown away: an expression that needs more of them gains nothing from it.
_MOST_REMEMBERED: Final = 2_000

_Reached = frozenset[int]
_END: Final = ""


@lru_cache(maxsize=256)
def compile_expression(text: str) -> "Expression":
    """Raises InvalidExpressionError. The same text gives the same object, with what it remembers."""
    return Expression(parse(text))


class Expression:
    """A program and what has been seen of its ways."""

    __slots__ = ("_program", "_remembered")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._remembered: dict[tuple[_Reached, str, str], _Reached] = {}

    def matches(self, name: str) -> bool:
        """Whether it is the whole name that matches."""
        reached: _Reached = frozenset((0,))
        previous = _END
        for character in name:
            reached = self._after(reached, previous, character)
            if not reached:
                return False
            previous = character
        return len(self._program) in self._reachable(reached, previous, _END)

    def _after(self, reached: _Reached, previous: str, character: str) -> _Reached:
        key = (reached, previous, character)
        known = self._remembered.get(key)
        if known is not None:
            return known
        found: set[int] = set()
        for place in self._reachable(reached, previous, character):
            if place < len(self._program):
                instruction = self._program[place]
                if isinstance(instruction, Take) and _holds(instruction.characters, character):
                    found.add(place + 1)
        after = frozenset(found)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = after
        return after

    def _reachable(self, reached: _Reached, previous: str, following: str) -> set[int]:
        """Every place that can be come to from `reached` without taking a character."""
        seen = set(reached)
        open_places = list(reached)
        while open_places:
            place = open_places.pop()
            if place == len(self._program):
                continue
            instruction = self._program[place]
            if isinstance(instruction, Fork):
                targets = [place + step for step in instruction.steps]
            elif isinstance(instruction, Require) and _is_there(instruction.assertion, previous, following):
                targets = [place + 1]
            else:
                continue
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    open_places.append(target)
        return seen


def _holds(characters: int, character: str) -> bool:
    return ord(character) < 128 and bool(characters >> ord(character) & 1)


def _is_there(assertion: Assertion, previous: str, following: str) -> bool:
    if assertion is Assertion.START:
        return previous == _END
    if assertion is Assertion.END:
        return following == _END
    before = previous != _END and _holds(WORD, previous)
    after = following != _END and _holds(WORD, following)
    return (before != after) == (assertion is Assertion.WORD_BOUNDARY)
