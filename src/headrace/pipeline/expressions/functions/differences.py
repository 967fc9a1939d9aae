"""Where functions differ from ksqlDB's, and why; `docs/compatibility.md` says it to users.

What is not named gives what ksqlDB gives, but for these, which concern many: an error in ksqlDB's log is
null here without a line in a log; characters beyond U+FFFF count as one and not as two; BYTES are compared as
unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_MAPS: Final = "Values with maps inside are refused: Spark does not compare maps."
_PARSING: Final = (
    "Texts are read strictly (2021-06-31 is null, not 2021-06-30). The letters Y w W e c Q q F A n N B p are"
    " refused in a constant format, and give null in another."
)
_FORMATTING: Final = (
    "The letters Y w W e c A n N B p are refused in a constant format, and give null in another; so are names"
    " of zones (z) in zones other than GMT."
)
_NUMBERS: Final = (
    "Numbers with a fraction are read as doubles: 1.50 is 1.5, and digits from the 18th on are lost."
)
_NO_WRAPPING: Final = "A sum that does not fit is null; ksqlDB's wraps around."

DIFFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ARRAY_CONTAINS": _NO_MAPS,
        "ARRAY_DISTINCT": _NO_MAPS,
        "ARRAY_EXCEPT": _NO_MAPS,
        "ARRAY_INTERSECT": _NO_MAPS,
        "ARRAY_REMOVE": _NO_MAPS,
        "ARRAY_UNION": _NO_MAPS,
        "ARRAY_JOIN": "Arrays of what is no number, text or BOOLEAN are refused; in ksqlDB they give null.",
        "AS_MAP": "Keys of null are left out: Spark's maps have none.",
        "ATTR": _NO_MAPS,
        "AVG": "The sum of INTEGERs does not wrap around.",
        "CHR": "Of escapes in a text only those that JSON has too are read: octal ones give null.",
        "COLLECT_SET": f"The values are in their own order, not in that of their rows. {_NO_MAPS}",
        "COUNT_DISTINCT": f"An estimate as in ksqlDB, by another hash. {_NO_MAPS}",
        "DATETOSTRING": _FORMATTING,
        "EXTRACTJSONFIELD": (
            f"{_NUMBERS} With a path that is no constant, a field of null gives null and not the text null."
        ),
        "FORMAT_DATE": _FORMATTING,
        "FORMAT_TIME": _FORMATTING,
        "FORMAT_TIMESTAMP": _FORMATTING,
        "GENERATE_SERIES": "More than 1,000,000 numbers give null.",
        "HISTOGRAM": "With more than 1000 values the most frequent are kept; nulls are not counted.",
        "JSON_ARRAY_CONTAINS": "An array with an object that has a key twice contains nothing.",
        "JSON_CONCAT": f"{_NUMBERS} Where objects have keys in common, keys are in alphabetical order.",
        "JSON_ITEMS": _NUMBERS,
        "JSON_RECORDS": _NUMBERS,
        "LPAD": "A length of more than 16,777,216 gives null.",
        "NULLIF": _NO_MAPS,
        "PARSE_DATE": _PARSING,
        "PARSE_TIME": _PARSING,
        "PARSE_TIMESTAMP": _PARSING,
        "REGEXP_EXTRACT": "A group that takes no part in what is found is an empty text, not null.",
        "REGEXP_EXTRACT_ALL": "A group that takes no part in what is found is an empty text, not null.",
        "REGEXP_REPLACE": "Groups by name (${name}) are understood if pattern and replacement are constants.",
        "RPAD": "A length of more than 16,777,216 gives null.",
        "STRINGTODATE": _PARSING,
        "STRINGTOTIMESTAMP": _PARSING,
        "SUBSTRING": "A length that goes far beyond the end gives all that is left, never nothing.",
        "SUM": _NO_WRAPPING,
        "SUM_LIST": _NO_WRAPPING,
        "TIMESTAMPTOSTRING": _FORMATTING,
        "TOPK": "Of equal texts with further columns any row may come first.",
    }
)
