"""`headrace sql-shell` against the real door: scripts, several lines, rows as they come, Ctrl-C."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headrace.cli.sql_shell import Completer, SqlShell, first_word, pieces, run_file, run_shell
from headrace.core.errors import HeadraceError
from headrace.pipeline.serving.service import StatementService
from tests.http.statements.test_ksql import stream
from tests.http.statements.test_queries import running_side, table
from tests.ports import free_port

SECONDS = 120.0


@pytest.fixture
def shell(address: str) -> Iterator[SqlShell]:
    with httpx.Client(base_url=address, timeout=SECONDS) as client:
        yield SqlShell(client=client, out=io.StringIO())


def said(shell: SqlShell) -> str:
    assert isinstance(shell.out, io.StringIO)
    return shell.out.getvalue()


def test_a_session(shell: SqlShell, name: str) -> None:
    shell.run(table(name) + f"INSERT INTO {name} VALUES ('a', 1); INSERT INTO {name} VALUES ('bc', NULL);")
    shell.run(f"SHOW TABLES; DESCRIBE {name}; SELECT id, v FROM {name} WHERE id = 'bc'; SHOW TOPICS;")
    out = said(shell)
    assert shell.succeeded
    assert "Table created" in out
    assert f" {name} | {name.lower()}" in out
    assert " ID    | VARCHAR (primary key)" in out
    width = (80 - 1) // 2 - 3
    assert f"| {'ID'.ljust(width)} | {'V'.ljust(width)} |" in out
    assert f"| {'bc'.ljust(width)} | {'null'.ljust(width)} |" in out
    assert "1 row\n" in out


def test_statements_over_several_lines_and_settings(shell: SqlShell, name: str) -> None:
    typed = [
        *stream(name).replace(" WITH", "\nWITH -- a comment; with a semicolon\n").splitlines(),
        "set 'auto.offset.reset'='earliest';",
        f"DEFINE which = '{name}';",
        "INSERT INTO ${which} VALUES ('it''s; so', 1); SELECT id",
        "FROM ${which};",
        "SHOW PROPERTIES;",
        "help",
        "exit",
        "SHOW NOTHING;",
    ]
    prompts: list[str] = []

    def read_line(prompt: str) -> str:
        prompts.append(prompt)
        return typed[len(prompts) - 1]

    shell.talk(read_line)
    out = said(shell)
    assert prompts[:2] == ["sql> ", "  > "]
    assert "Successfully changed local property 'auto.offset.reset' to 'earliest'." in out
    assert "it's; so" in out
    assert "auto.offset.reset" in out
    assert "Ctrl-C ends a query" in out
    assert "NOTHING" not in out
    assert shell.properties == {"auto.offset.reset": "earliest"}


def test_a_failure_ends_a_script(shell: SqlShell, name: str, tmp_path: Path) -> None:
    script = tmp_path / "some.sql"
    script.write_text(f"{stream(name)}\nSHOW STREEMS;\n{stream(name + '_2')}")
    shell.run(f"RUN SCRIPT '{script}'; SHOW STREAMS;")
    out = said(shell)
    assert not shell.succeeded
    assert "STREAMS" in out
    assert "stopped at that statement" in out
    assert "Stream Name" not in out


def test_what_is_not_there_is_told(shell: SqlShell) -> None:
    for text in (
        "RUN SCRIPT '/no/file.sql';",
        "SELECT * FROM no_such_thing;",
        "PRINT no_such_thing;",
        "SET x;",
    ):
        shell.succeeded = True
        shell.run(text)
        assert not shell.succeeded, text
    with httpx.Client(base_url=f"http://127.0.0.1:{free_port()}") as client:
        lonely = SqlShell(client=client, out=io.StringIO())
        lonely.run("SHOW STREAMS;")
        assert "does not answer" in said(lonely)


def test_exit_codes(address: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    assert run_shell(address, text=stream(name), out=out) == 0
    assert run_shell(address, text=stream(name), out=out) == 1
    script = tmp_path / "some.sql"
    script.write_text(f"SHOW STREAMS;\n{stream(name)}\nSHOW TABLES;")
    assert run_file(address, script) == 1
    shown = capsys.readouterr().out
    assert "Stream Name" in shown
    assert "already exists" in shown
    assert "Table Name" not in shown
    with pytest.raises(HeadraceError):
        run_file(address, tmp_path / "none.sql")


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("a; b", ["a;"], "b"),
        ("a 'x;y'; b", ["a 'x;y';"], "b"),
        ("a 'it''s;", [], "a 'it''s;"),
        ("a -- ;\n b;", ["a -- ;\n b;"], ""),
        ("/* ; */ a; /* open ;", ["/* ; */ a;"], "/* open ;"),
        ("a `x;`; b - 1 / 2;", ["a `x;`;", "b - 1 / 2;"], ""),
        ("", [], ""),
    ],
)
def test_where_statements_end(text: str, statements: list[str], rest: str) -> None:
    assert pieces(text) == (statements, rest)


def test_first_words() -> None:
    assert first_word("-- x\n /* y */ select 1;") == "SELECT"
    assert first_word(" ;") == ""


def test_completion(shell: SqlShell, name: str) -> None:
    shell.run(stream(name))
    completer = Completer(shell.names)
    assert completer.complete("stre", 0) == "STREAM"
    assert completer.complete("stre", 1) == "STREAMS"
    assert completer.complete(name[:6].lower(), 0) in {name, name.lower()}
    assert completer.complete("qqqqq", 0) is None


class Terminal:
    """The shell in a process of its own, at a terminal."""

    def __init__(self, address: str, history: Path) -> None:
        master, slave = pty.openpty()
        code = (
            "import fcntl, pathlib, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "from headrace.cli.sql_shell import run_shell; "
            "sys.exit(run_shell(sys.argv[1], history=pathlib.Path(sys.argv[2])))"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, address, str(history)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "80"},
        )
        os.close(slave)
        self._master = master
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Until the text was printed, behind what was waited for before."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._master], [], [], 0.1)[0]:
                self.seen += os.read(self._master, 65536).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def ended(self) -> int:
        return self._process.wait(SECONDS)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)


def test_ctrl_c_ends_the_query_and_not_the_shell(
    address: str, service: StatementService, name: str, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    terminal = Terminal(address, history)
    try:
        terminal.wait_for("sql> ")
        terminal.type(stream(name) + "\n")
        terminal.wait_for("Stream created")
        with running_side(service.cluster, [{"ID": "first", "V": 1}]) as current:
            terminal.type(f"SELECT id, v FROM {name} EMIT CHANGES;\n")
            terminal.wait_for("| first")
            assert current
            terminal.type("\x03")
            terminal.wait_for("Query terminated")
            deadline = time.monotonic() + SECONDS
            while current or service.push.ids():
                assert time.monotonic() < deadline
        terminal.wait_for("sql> ")
        terminal.type("SHOW STR\x03")
        terminal.wait_for("sql> ")
        terminal.type("exit\n")
        assert terminal.ended() == 0
    finally:
        terminal.close()
    assert "EMIT CHANGES" in history.read_text()
