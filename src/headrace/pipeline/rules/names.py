"""Names for columns that a statement does not name: KSQL_COL_0, or the name of a struct's field.

As in ksqlDB, a name that a source has already, or that was given before, gets the next free number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.pipeline.statements.expressions import Expression, FieldAccess

_NUMBERED: Final = re.compile(r"(?P<name>.*?)(?:_(?P<number>\d+))?", re.DOTALL)
_GENERATED: Final = "KSQL_COL"


class Names:
    """Gives each name once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        for name in taken:
            base, number = _parts(name)
            self._used.setdefault(base, set()).add(number)

    def name_for(self, expression: Expression) -> str:
        if isinstance(expression, FieldAccess):
            return self.free(_parts(expression.field_name)[0])
        return self.free(_GENERATED)

    def free(self, base: str) -> str:
        number = self._next.get(base, 0)
        while number in self._used.get(base, ()):
            number += 1
        self._next[base] = number + 1
        return base if number == 0 and base != _GENERATED else f"{base}_{number}"


def _parts(name: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(name)
    assert match is not None
    return match["name"], int(match["number"] or 0)
