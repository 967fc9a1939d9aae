"""How cases are written: text to case. What they show runs in `tests/pipeline/test_statement_cases.py`."""

from __future__ import annotations

import pytest

from tests.statements.case_files import Expect, Line, Schema, Settle, Write, case_of, cases

CASE = """
-- what it shows
-- long
-- fails: for a reason
CREATE STREAM S (ID VARCHAR KEY) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');
<<< schema of in-value
"string"
<<< in
"a" | {"x": "a|b"} | @1000 | p2 | h:k=v=w
=== settled
>>> OUT as a table
"a" [1000..2000] | null
>>> dead letters
~a | ~b | Why.
"""


def test_a_case_is_read() -> None:
    case = case_of("file", CASE.strip().split("\n"))
    assert (case.id, case.is_long, case.is_real_time, case.fails) == (
        "file-what_it_shows",
        True,
        False,
        "for a reason",
    )
    assert case.statements.startswith("CREATE STREAM S")
    assert case.actions == (
        Schema(subject="in-value", text='"string"'),
        Write(
            topic="in",
            lines=(Line(key='"a"', value='{"x": "a|b"}', time=1000, partition=2, headers=(("k", "v=w"),)),),
        ),
        Settle(),
        Expect(topic="OUT", how="as a table", lines=(Line(key='"a"', value="null", window=(1000, 2000)),)),
        Expect(topic="dead letters", how="in any order", lines=(Line(key="~a", value="~b", reason="Why."),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\n<<< in", "begins with what it shows"),
        ("-- a case\n-- slow\nSELECT 1;\n<<< in", "says nothing to the runner"),
        ("-- a case\nSELECT 1;\n<<< in\n1 | 2 | 3", "what is 3"),
    ],
)
def test_a_case_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        case_of("file", text.split("\n"))


def test_cases_have_names_of_their_own_and_expect_something() -> None:
    found = list(cases())
    assert len({case.id for case in found}) == len(found) >= 120
    assert sum(not case.is_long for case in found) >= 45
    assert all(any(isinstance(action, Expect) for action in case.actions) for case in found)
