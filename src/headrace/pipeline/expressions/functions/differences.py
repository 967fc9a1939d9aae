"""Differences between our functions and ksqlDB's, and why; `docs/compatibility.md` lists them for users.

Other functions give what ksqlDB gives, with three general differences: where ksqlDB logs an error, the result
is null and nothing is logged; characters beyond U+FFFF count as one, not two; BYTES compare as unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_MAPS: Final = "Values that contain maps are rejected: Spark cannot compare maps."
_ZEROS: Final = "-0.0 equals 0.0."
_CALENDAR: Final = "A DATE or TIMESTAMP outside the years 1 to 9999 is null."
_PARSING: Final = (
    f"{_CALENDAR} Texts are read strictly (2021-06-31 is null, not 2021-06-30). The letters Y w W e c Q q F A"
    " n N B p are rejected in a constant format, and give null in any other. If the format is not constant"
    " and has y or yyy, texts with six digits in a row give null. Pull queries know zone identifiers and"
    " common abbreviations, but no other zone names (z)."
)
_FORMATTING: Final = (
    f"{_CALENDAR} The letters Y w W e c A n N B p, and zone names (z) in zones other than GMT, are rejected"
    " in a constant format, and give null in any other."
)
_JSON: Final = "Strings in single quotes and with control characters are accepted."
_NUMBERS: Final = (
    "Numbers with a fraction are read as doubles: 1.50 is 1.5, and digits from the 18th on are lost."
)
_PATTERNS: Final = (
    r"Pull queries reject patterns that Python cannot match: \G, \X, \p of scripts and blocks, the flag U,"
    " lookbehind of variable length. A pattern that matches an empty text also matches inside of characters"
    " beyond U+FFFF, as in ksqlDB, but not in pull queries. Texts of more than 10,000 characters give null if"
    " the pattern repeats a group, as in (a|b)*: Java's stack could overflow."
)
_GROUPS: Final = "A group that does not participate in the match gives an empty text, not null."
_NO_WRAPPING: Final = "A sum that overflows is null; in ksqlDB it wraps around."

DIFFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ARRAY_CONTAINS": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_DISTINCT": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_EXCEPT": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_INTERSECT": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_REMOVE": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_UNION": f"{_NO_MAPS} {_ZEROS}",
        "ARRAY_JOIN": "Only arrays of numbers, texts and BOOLEANs are accepted; in ksqlDB others give null.",
        "AS_MAP": "Null keys are left out: Spark's maps cannot have them.",
        "ATTR": _NO_MAPS,
        "ATAN2": "-0.0 counts as 0.0.",
        "AVG": "The sum of INTEGERs does not wrap around.",
        "CONVERT_TZ": _CALENDAR,
        "DATEADD": _CALENDAR,
        "DATESUB": _CALENDAR,
        "CHR": "In a text, only the escapes that JSON also has are read; octal ones give null.",
        "COLLECT_SET": f"The values are sorted, not in the order of their rows. {_NO_MAPS}",
        "COUNT_DISTINCT": f"An estimate, as in ksqlDB, but with another hash. {_NO_MAPS}",
        "DATETOSTRING": _FORMATTING,
        "EXTRACTJSONFIELD": (
            f"{_JSON} {_NUMBERS} Of duplicate keys, the first counts. If the path is not constant, its"
            " numeric steps are either all positions or all names."
        ),
        "FORMAT_DATE": _FORMATTING,
        "FORMAT_TIME": _FORMATTING,
        "FORMAT_TIMESTAMP": _FORMATTING,
        "FROM_DAYS": _CALENDAR,
        "FROM_UNIXTIME": _CALENDAR,
        "GENERATE_SERIES": "More than 1,000,000 numbers give null.",
        "HISTOGRAM": "Of more than 1000 values, the most frequent are kept; nulls are not counted.",
        "IS_JSON_STRING": _JSON,
        "JSON_ARRAY_LENGTH": _JSON,
        "JSON_KEYS": _JSON,
        "JSON_ARRAY_CONTAINS": "An array with an object that has a duplicate key contains nothing.",
        "JSON_CONCAT": f"{_NUMBERS} If objects have keys in common, keys are in alphabetical order.",
        "JSON_ITEMS": f"{_NUMBERS} An array with an object that has a duplicate key gives null.",
        "JSON_RECORDS": _NUMBERS,
        "LPAD": "A length of more than 16,777,216 gives null.",
        "NULLIF": _NO_MAPS,
        "PARSE_DATE": _PARSING,
        "PARSE_TIME": _PARSING,
        "PARSE_TIMESTAMP": _PARSING,
        "REGEXP_EXTRACT": f"{_GROUPS} {_PATTERNS}",
        "REGEXP_EXTRACT_ALL": f"{_GROUPS} {_PATTERNS}",
        "REGEXP_REPLACE": (
            f"Named groups (${{name}}) work if pattern and replacement are constants. {_PATTERNS}"
        ),
        "REGEXP_SPLIT_TO_ARRAY": _PATTERNS,
        "RPAD": "A length of more than 16,777,216 gives null.",
        "STRINGTODATE": _PARSING,
        "STRINGTOTIMESTAMP": _PARSING,
        "SUBSTRING": "A length far beyond the end gives the rest of the text, never an empty one.",
        "SUM": _NO_WRAPPING,
        "SUM_LIST": _NO_WRAPPING,
        "TIMESTAMPADD": _CALENDAR,
        "TIMESTAMPSUB": _CALENDAR,
        "TIMESTAMPTOSTRING": _FORMATTING,
        "TOPK": "Among equal texts with further columns, any row may come first.",
    }
)
