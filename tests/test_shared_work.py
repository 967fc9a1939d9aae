"""How the processes of `make test` share the tests."""

from __future__ import annotations

from pathlib import Path

from tests import shared_work
from tests.shared_work import choose, kind_of, scope_of

TESTS = Path(__file__).parent
FILES = [path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")]


def test_what_stays_together() -> None:
    platform = scope_of("tests/end_to_end/test_console.py::test_a")
    assert scope_of("tests/end_to_end/test_crashes.py::test_b[1]") == platform
    assert scope_of("tests/end_to_end/test_kills.py::test_c") != platform
    assert scope_of("tests/log/test_freeing.py::test_d") == scope_of("tests/log/test_freeing.py::test_e")
    cases = "tests/pipeline/test_statement_cases.py::test_case[{}]"
    assert scope_of(cases.format("windows-one")) == scope_of(cases.format("windows-two"))
    assert scope_of(cases.format("windows-one")) != scope_of(cases.format("times-one"))


def test_each_beginning_of_a_name_fits_a_file() -> None:
    for starts in shared_work._KINDS.values():
        for start in starts:
            assert any(file.startswith(start) for file in FILES), start


def test_each_process_has_a_place_for_every_kind() -> None:
    kinds = {kind_of(scope_of(file)) for file in FILES}
    assert kinds == {*shared_work._KINDS, "plain"}
    for preferred in shared_work._PREFERENCES:
        assert sorted(preferred) == sorted(kinds)


def test_a_process_takes_what_suits_it_in_the_given_order_and_then_anything() -> None:
    waiting = "tests/conformance/test_groups.py"
    scopes = [
        "tests/pipeline/test_holes.py",
        "tests/log/test_freeing.py",
        waiting,
        "tests/wire/test_fetch.py",
    ]
    assert [choose(scopes, process) for process in range(4)] == [scopes[0], scopes[0], waiting, scopes[1]]
    assert choose(scopes[1:], 0) == scopes[1]
    assert choose([waiting], 0) == waiting
