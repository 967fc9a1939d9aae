"""The functions of Druid SQL, one file per family: rows of a name, its arguments, and its DuckDB SQL.

Never: anything about a statement as a whole.
"""

from __future__ import annotations

from typing import Final

from headrace.query.druid.calls import Family, Function
from headrace.query.druid.functions.aggregates import AGGREGATES, WINDOWS
from headrace.query.druid.functions.arrays import ARRAYS
from headrace.query.druid.functions.numbers import NUMBERS
from headrace.query.druid.functions.others import OTHERS
from headrace.query.druid.functions.strings import STRINGS
from headrace.query.druid.functions.times import TIMES

FAMILIES: Final[tuple[Family, ...]] = (TIMES, AGGREGATES, WINDOWS, NUMBERS, STRINGS, ARRAYS, OTHERS)
FUNCTIONS: Final[dict[str, Function]] = {
    function.name: function for family in FAMILIES for function in family.functions
}
# Of Druid, but not here; by the beginning of their names.
MISSING: Final[dict[str, str]] = {
    "BLOOM_FILTER": "there are no Bloom filters here",
    "DS_": "sketches cannot be stored here",
    "HLL_SKETCH": "sketches cannot be stored here",
    "THETA_SKETCH": "sketches cannot be stored here",
    "HUMAN_READABLE_": "format numbers in the client",
}
