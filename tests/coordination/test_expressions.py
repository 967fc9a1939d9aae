"""Regular expressions over topic names: RE2's syntax and refusals, in linear time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.expressions import InvalidExpressionError, compile_expression

names = st.text(alphabet="abAB01._-", max_size=8)


def simple_expressions() -> st.SearchStrategy[str]:
    """Expressions that mean the same to RE2 and to Python."""
    atoms = st.sampled_from(
        [
            "a",
            "b",
            "A",
            "0",
            "_",
            "-",
            r"\.",
            ".",
            r"\d",
            r"\w",
            r"\W",
            "[ab]",
            "[^a]",
            "[a-b0]",
            "^",
            "$",
            r"\b",
        ]
    )
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??"])).map(
                lambda pair: f"({pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=6,
    )


@given(simple_expressions(), st.lists(names, max_size=5))
def test_it_matches_what_python_matches(expression: str, some: list[str]) -> None:
    compiled = compile_expression(expression)
    for name in some:
        # Python's `$` also matches before a final line break, which names do not have.
        assert compiled.matches(name) == bool(re.fullmatch(expression, name)), (expression, name)


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("events", ["events"], ["events2", "my-events", ""]),
        ("events.*", ["events", "events-2"], ["my-events"]),
        ("(?i)Events", ["EVENTS", "events"], ["event"]),
        ("a(?i:b)c", ["aBc"], ["aBC", "Abc"]),
        ("(?i)[a-c]x(?-i)y", ["BXy"], ["BXY"]),
        (r"\Qa.b\E.", ["a.bc"], ["aXbc"]),
        (r"[[:alpha:]]+[[:^digit:]]", ["ab", "a-"], ["a1"]),
        (r"\p{Lu}\pN+", ["A12"], ["a12"]),
        (r"\P{L}x", ["1x"], ["ax"]),
        (r"\x41\x{42}\101", ["ABA"], ["AB"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{2,}", ["aa", "aaaaaa"], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("x{", ["x{"], ["x"]),
        ("[]a]+", ["]a]"], ["b"]),
        ("[^]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"[\d\-]+", ["1-2"], ["a"]),
        ("a||b", ["a", "", "b"], ["ab"]),
        ("(?P<kind>a|b)c", ["ac"], ["c"]),
        (r"\Aa\z", ["a"], ["aa"]),
        ("(a|b|)c", ["ac", "c"], ["abc"]),
        ("é", ["é"], ["e", "É"]),
        ("(?i)é", ["é", "É"], ["e"]),
        ("[^é]", ["e", "è"], ["é", "ee"]),
        (r"\p{Greek}.", ["λ1", "λλ"], ["a1", "λ"]),
        (r"\Q(?P<a>\E[(?P<a>\]](?P<a>b)", ["(?P<a><b", "(?P<a>]b"], ["b"]),
        ("(" * 300 + ")" * 300, [""], ["a"]),
        ("a" * 6000, ["a" * 6000], ["a"]),
    ],
)
def test_syntax(expression: str, matching: list[str], others: list[str]) -> None:
    compiled = compile_expression(expression)
    assert [name for name in matching + others if compiled.matches(name)] == matching


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("[b-a]", "invalid character class range"),
        ("[[:nothing:]]", "invalid character class range"),
        ("*", "missing argument to repetition operator"),
        ("a|*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\y", "invalid escape sequence"),
        (r"\p{Nonsense}", "invalid character class range"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?!a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid named capture"),
        ("(?<!a)b", "invalid named capture"),
        ("(?>a)", "invalid or unsupported Perl syntax"),
        ("(?P<a-b>a)", "invalid named capture"),
        ("(?P<a", "invalid named capture"),
        ("(?P<a>x)(?P<a>y)", "duplicate capture group name"),
        ("(?P<é>a)", "invalid named capture"),
        (r"\C", "invalid escape sequence"),
        ("(?i", "invalid or unsupported Perl syntax"),
        ("(?i)*", "missing argument to repetition operator"),
        (r"[a-\d]", "invalid escape sequence"),
        ("(((a{100}){100}){100})", "invalid repeat count"),
        (r"\pL{1000}", "expression is too large"),
        ("".join(f"(?P<n{number}>a)" for number in range(101)), "expression is too large"),
    ],
)
def test_what_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(InvalidExpressionError) as raised:
        compile_expression(expression)
    assert str(raised.value) == reason


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    try:
        compiled = compile_expression(text)
    except InvalidExpressionError:
        return
    compiled.matches("events")


def test_a_refusal_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidExpressionError):
        compile_expression("(a)(")
    assert capfd.readouterr() == ("", "")


def test_thousands_of_groups_cost_nothing() -> None:
    """Capturing each of them would take RE2 seconds and hundreds of megabytes."""
    started = time.process_time()
    assert compile_expression("(" * 5000 + ")" * 5000).matches("")
    assert time.process_time() - started < 1


def test_what_makes_backtracking_explode_takes_no_time() -> None:
    hostile = compile_expression("(a*)*(a|aa)+(a|a?)*b")
    assert not hostile.matches("a" * 249)
    assert hostile.matches("a" * 248 + "b")


def test_more_states_than_fit_its_memory() -> None:
    compiled = compile_expression("(a|b)*a(a|b){12}")
    name = "".join("ab"[number * number % 7 % 2] for number in range(240))
    for start in range(40):
        assert compiled.matches(name[start:]) == (name[start:][-13] == "a")
