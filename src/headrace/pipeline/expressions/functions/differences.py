"""Differences between our functions and ksqlDB's, and why; `docs/compatibility.md` lists them for users.

Other functions give what ksqlDB gives, with three general differences: where ksqlDB logs an error, the result
is null and nothing is logged; characters beyond U+FFFF count as one, not two; BYTES compare as unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_MAPS: Final = "Values that contain maps are rejected: Spark cannot compare maps."
_PARSING: Final = (
    "Texts are read strictly (2021-06-31 is null, not 2021-06-30). The letters Y w W e c Q q F A n N B p are"
    " rejected in a constant format, and give null in any other."
)
_FORMATTING: Final = (
    "The letters Y w W e c A n N B p, and zone names (z) in zones other than GMT, are rejected in a constant"
    " format, and give null in any other."
)
_NUMBERS: Final = (
    "Numbers with a fraction are read as doubles: 1.50 is 1.5, and digits from the 18th on are lost."
)
_NO_WRAPPING: Final = "A sum that overflows is null; in ksqlDB it wraps around."

DIFFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ARRAY_CONTAINS": _NO_MAPS,
        "ARRAY_DISTINCT": _NO_MAPS,
        "ARRAY_EXCEPT": _NO_MAPS,
        "ARRAY_INTERSECT": _NO_MAPS,
        "ARRAY_REMOVE": _NO_MAPS,
        "ARRAY_UNION": _NO_MAPS,
        "ARRAY_JOIN": "Only arrays of numbers, texts and BOOLEANs are accepted; in ksqlDB others give null.",
        "AS_MAP": "Null keys are left out: Spark's maps cannot have them.",
        "ATTR": _NO_MAPS,
        "ATAN2": "-0.0 counts as 0.0.",
        "AVG": "The sum of INTEGERs does not wrap around.",
        "CHR": "In a text, only the escapes that JSON also has are read; octal ones give null.",
        "COLLECT_SET": f"The values are sorted, not in the order of their rows. {_NO_MAPS}",
        "COUNT_DISTINCT": f"An estimate, as in ksqlDB, but with another hash. {_NO_MAPS}",
        "DATETOSTRING": _FORMATTING,
        "EXTRACTJSONFIELD": (
            f"{_NUMBERS} If the path is not constant, a null field gives null, not the text null."
        ),
        "FORMAT_DATE": _FORMATTING,
        "FORMAT_TIME": _FORMATTING,
        "FORMAT_TIMESTAMP": _FORMATTING,
        "GENERATE_SERIES": "More than 1,000,000 numbers give null.",
        "HISTOGRAM": "Of more than 1000 values, the most frequent are kept; nulls are not counted.",
        "JSON_ARRAY_CONTAINS": "An array with an object that has a duplicate key contains nothing.",
        "JSON_CONCAT": f"{_NUMBERS} If objects have keys in common, keys are in alphabetical order.",
        "JSON_ITEMS": _NUMBERS,
        "JSON_RECORDS": _NUMBERS,
        "LPAD": "A length of more than 16,777,216 gives null.",
        "NULLIF": _NO_MAPS,
        "PARSE_DATE": _PARSING,
        "PARSE_TIME": _PARSING,
        "PARSE_TIMESTAMP": _PARSING,
        "REGEXP_EXTRACT": "A group that does not participate in the match gives an empty text, not null.",
        "REGEXP_EXTRACT_ALL": "A group that does not participate in the match gives an empty text, not null.",
        "REGEXP_REPLACE": "Named groups (${name}) work if pattern and replacement are constants.",
        "RPAD": "A length of more than 16,777,216 gives null.",
        "STRINGTODATE": _PARSING,
        "STRINGTOTIMESTAMP": _PARSING,
        "SUBSTRING": "A length far beyond the end gives the rest of the text, never an empty one.",
        "SUM": _NO_WRAPPING,
        "SUM_LIST": _NO_WRAPPING,
        "TIMESTAMPTOSTRING": _FORMATTING,
        "TOPK": "Among equal texts with further columns, any row may come first.",
    }
)
