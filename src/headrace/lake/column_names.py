"""Names of columns that a Delta table accepts, made from the names of fields.

Delta without column mapping refuses the characters ` ,;{}()`, newline, tab and `=`; each becomes `_`. Names
that then are equal, in whatever case, cannot both be columns and are refused; so are the names of the columns
that say where a row comes from (`layout.py`), but only at the top. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.layout import COORDINATE_COLUMNS

_REFUSED: Final = re.compile(r"[ ,;{}()\n\t=]")
_RESERVED: Final = frozenset(name.casefold() for name, _ in COORDINATE_COLUMNS)


def column_name(field: str) -> str:
    """The name of the column for a field; a nameless field is `_`."""
    return _REFUSED.sub("_", field) or "_"


def column_names(fields: Iterable[str], *, path: str = "") -> tuple[str, ...]:
    """The names of the columns for the fields of one record, in order.

    `path` says where the record is; empty for the row itself. Raises lake_unsupported.
    """
    fields = tuple(fields)
    given: dict[str, str] = {}
    for field in fields:
        name = column_name(field)
        if not path and name.casefold() in _RESERVED:
            raise HeadraceError(
                "lake_unsupported",
                f"Field {field} has the name of a column that says where a row comes from.",
                remedy="Rename it with the transformation ReplaceField.",
            )
        if other := given.get(name.casefold()):
            raise HeadraceError(
                "lake_unsupported",
                f"Fields {within(path, other)} and {within(path, field)} would be the same column: "
                "case and the characters ' ,;{}()=' do not tell columns apart.",
                remedy="Rename one of them with the transformation ReplaceField.",
            )
        given[name.casefold()] = field or "''"
    return tuple(map(column_name, fields))


def within(path: str, name: str) -> str:
    """The path of a field of the record at `path`."""
    return f"{path}.{name}" if path else name
