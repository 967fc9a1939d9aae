"""`headrace sql-shell`: statements typed at a prompt, sent to a server that speaks ksqlDB's REST API.

A statement may span several lines and is sent at its semicolon. Rows are shown as they arrive, and Ctrl-C
ends the query, not the shell. The values of SET and DEFINE are kept here and sent along, as in ksqlDB's own
shell. History is kept in a file, and Tab completes keywords and the names of existing things.

Never interprets a statement beyond its first word: the server decides.
"""

from __future__ import annotations

import contextlib
import json
import re
import readline
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

import httpx

from headrace.cli.sql_shell_output import RowTable, entity_lines
from headrace.core.errors import HeadraceError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import Define, RunScript, SetProperty, Undefine, UnsetProperty

DEFAULT_URL: Final = "http://localhost:8088"
HISTORY_FILE: Final = Path("~/.headrace_sql_history")
_PROMPT: Final = "sql> "
_CONTINUED: Final = "  > "
_HISTORY_LINES: Final = 2_000
_LEAVING: Final = frozenset({"exit", "quit", "\\q"})
_SETTING: Final = frozenset({"SET", "UNSET", "DEFINE", "UNDEFINE", "RUN"})
# Strings, names and comments, in which a semicolon ends nothing; an unclosed one extends to the end.
_PIECES: Final = re.compile(
    r"'(?:[^']|'')*(?:'|\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;|[^'`;/-]+|.", re.DOTALL
)
_WORDS: Final = re.findall(
    r"\w+",
    """ADD ALTER AND ARRAY AS ASSERT BEGINNING BETWEEN BIGINT BOOLEAN BY BYTES CASE CAST CHANGES COLUMN CREATE
    DATE DECIMAL DEFINE DELETE DESCRIBE DOUBLE DROP ELSE EMIT END EXISTS EXPLAIN EXTENDED FINAL FROM FULL
    FUNCTION FUNCTIONS GRACE GROUP HAVING HEADERS HOPPING IF IN INNER INSERT INT INTEGER INTO IS JOIN KEY
    LEFT LIKE LIMIT LIST MAP NOT NULL ON OR OUTER PARTITION PAUSE PERIOD PRIMARY PRINT PROPERTIES QUERIES
    REPLACE RESUME RIGHT RUN SCHEMA SCRIPT SELECT SESSION SET SHOW SIZE SOURCE STREAM STREAMS STRING STRUCT
    TABLE TABLES TERMINATE THEN TIME TIMESTAMP TOPIC TOPICS TUMBLING TYPE TYPES UNDEFINE UNSET VALUES VARCHAR
    VARIABLES WHEN WHERE WINDOW WITH WITHIN exit help quit""",
)
_HELP: Final = """\
Statements end with a semicolon. Ctrl-C ends a query; Ctrl-D or `exit` ends the shell.
  SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW TOPICS;   list what exists
  DESCRIBE name; EXPLAIN query;                           details of one of them
  SELECT … EMIT CHANGES;   rows as they arrive            PRINT topic FROM BEGINNING;
  SET 'auto.offset.reset'='earliest';                     start with the first record
  RUN SCRIPT 'file.sql';                                  run the statements in a file"""


def pieces(text: str) -> tuple[list[str], str]:
    """The complete statements, each with its semicolon, and the rest after the last one."""
    statements: list[str] = []
    current = ""
    for piece in _PIECES.findall(text):
        current += piece
        if piece == ";":
            statements.append(current.strip())
            current = ""
    return statements, current.strip()


def first_word(statement: str) -> str:
    """The first word in upper case, skipping leading comments."""
    bare = re.sub(r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)+", "", statement, flags=re.DOTALL)
    found = re.match(r"\w+", bare)
    return found.group().upper() if found else ""


@dataclass(slots=True, kw_only=True)
class SqlShell:
    """One conversation with a server."""

    client: httpx.Client
    out: TextIO
    width: int = 80
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    # Whether everything so far has succeeded.
    succeeded: bool = True

    def run(self, text: str) -> None:
        """Run statements, stopping at the first that fails."""
        statements, rest = pieces(text)
        for statement in (*statements, *([f"{rest};"] if rest else [])):
            if not self._run_one(statement):
                self.succeeded = False
                return

    def _run_one(self, statement: str) -> bool:
        word = first_word(statement)
        try:
            if word in _SETTING:
                self._set(statement)
            elif word == "SELECT":
                self._select(statement)
            elif word == "PRINT":
                self._print(statement)
            elif word:
                self._execute(statement)
        except httpx.HTTPError as error:
            self._print_lines(f"The server at {self.client.base_url} does not answer: {error}")
            return False
        except (HeadraceError, OSError) as error:
            self._print_lines(str(error))
            return False
        return True

    def _print_lines(self, *lines: str) -> None:
        for line in lines:
            print(line, file=self.out, flush=True)

    def _set(self, statement: str) -> None:
        for parsed in parse(statement, variables=self.variables):
            match parsed.statement:
                case SetProperty(name=name, value=value):
                    former = self.properties.get(name)
                    self.properties[name] = value
                    changed = f" Was '{former}'." if former is not None else ""
                    self._print_lines(f"Successfully changed local property '{name}' to '{value}'.{changed}")
                case UnsetProperty(name=name):
                    self.properties.pop(name, None)
                    self._print_lines(f"Successfully unset local property '{name}'.")
                case Define(name=name, value=value):
                    self.variables[name] = value
                case Undefine(name=name):
                    self.variables.pop(name, None)
                case RunScript(path=path):
                    self._run_script(Path(path).expanduser())

    def _run_script(self, path: Path) -> None:
        outer = self.succeeded
        self.succeeded = True
        self.run(path.read_text())
        if not self.succeeded:
            raise HeadraceError("bad_statement", f"The script {path} stopped at that statement.")
        self.succeeded = outer

    def _session(self) -> dict[str, Any]:
        return {"streamsProperties": self.properties, "sessionVariables": self.variables}

    def _execute(self, statement: str) -> None:
        answer = self.client.post("/ksql", json={"ksql": statement, **self._session()}, timeout=120)
        content = answer.json()
        if answer.status_code != httpx.codes.OK:
            raise _failure(content)
        for entity in content:
            self._print_lines("", *entity_lines(entity))

    @contextlib.contextmanager
    def _stream(self, path: str, body: dict[str, Any]) -> Iterator[Iterator[str]]:
        """The lines of a streaming response, until it ends or the user interrupts it."""
        endless = httpx.Timeout(30, read=None)
        try:
            with self.client.stream("POST", path, json=body, timeout=endless) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise _failure(json.loads(answer.read()))
                yield answer.iter_lines()
        except KeyboardInterrupt:
            self._print_lines("", "Query terminated")

    def _select(self, statement: str) -> None:
        body = {
            "sql": statement,
            "properties": self.properties,
            "sessionVariables": self.variables,
        }
        with self._stream("/query-stream", body) as lines:
            rows = 0
            shown: RowTable | None = None
            for line in lines:
                content = json.loads(line) if line.strip() else None
                if isinstance(content, dict) and "columnNames" in content:
                    shown = RowTable(content["columnNames"], self.width)
                    self._print_lines(*shown.begin())
                elif isinstance(content, dict):
                    raise _failure(content)
                elif content is not None and shown is not None:
                    rows += 1
                    self._print_lines(*shown.row(content))
            if shown is not None:
                self._print_lines(*shown.end(), f"{rows} row{'' if rows == 1 else 's'}")

    def _print(self, statement: str) -> None:
        with self._stream("/query", {"ksql": statement, **self._session()}) as lines:
            for line in lines:
                self._print_lines(line)

    def names(self) -> list[str]:
        """Names for completion; none if the server does not answer."""
        text = "SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW TOPICS; SHOW FUNCTIONS;"
        try:
            answer = self.client.post("/ksql", json={"ksql": text}, timeout=2).json()
        except (httpx.HTTPError, ValueError):
            return []
        fields = ("streams", "tables", "queries", "topics", "functions")
        return [
            str(found.get("name") or found.get("id"))
            for entity in (answer if isinstance(answer, list) else [])
            for kind in fields
            for found in entity.get(kind, ())
        ]

    def talk(self, read_line: Callable[[str], str] = input) -> None:
        """Read and run statements until the input ends."""
        waiting = ""
        while True:
            try:
                line = read_line(_CONTINUED if waiting else _PROMPT)
            except EOFError:
                self._print_lines("")
                return
            except KeyboardInterrupt:
                # Discard what was typed, as any shell does.
                waiting = ""
                self._print_lines("")
                continue
            word = line.strip().rstrip(";").lower()
            if not waiting and word in _LEAVING:
                return
            if not waiting and word == "help":
                self._print_lines(_HELP)
                continue
            statements, waiting = pieces(f"{waiting}\n{line}" if waiting else line)
            with contextlib.suppress(KeyboardInterrupt):
                self.run("".join(statements))


def _failure(content: Any) -> HeadraceError:
    message = content.get("message") if isinstance(content, dict) else None
    return HeadraceError("query_failed", str(message or content))


class Completer:
    """Keywords and the names of existing things, looked up when a word begins."""

    def __init__(self, names: Callable[[], list[str]]) -> None:
        self._names = names
        self._found: list[str] = []

    def complete(self, text: str, state: int) -> str | None:
        if state == 0:
            upper = text.upper()
            known = dict.fromkeys((*_WORDS, *self._names()))
            self._found = sorted(word for word in known if upper and word.upper().startswith(upper))
        return self._found[state] if state < len(self._found) else None


@contextlib.contextmanager
def _line_editing(shell: SqlShell, history: Path) -> Iterator[None]:
    """History and completion, for an interactive terminal."""
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer(Completer(shell.names).complete)
    readline.set_completer_delims(" \t\n,;()<>=+*/'`")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(history)


def run_shell(
    url: str = DEFAULT_URL, *, text: str | None = None, history: Path | None = None, out: TextIO | None = None
) -> int:
    """Run the shell, or only `text` if given. Returns the exit code."""
    width = shutil.get_terminal_size().columns
    with httpx.Client(base_url=url, trust_env=False) as client:
        shell = SqlShell(client=client, out=out or sys.stdout, width=width)
        if text is not None:
            shell.run(text)
        elif sys.stdin.isatty():
            print(f"Headrace SQL, connected to {url}. Type `help` for help, `exit` to leave.")
            # The parent may ignore Ctrl-C, and that is inherited; but here somebody is typing.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with _line_editing(shell, (history or HISTORY_FILE).expanduser()):
                shell.talk()
        else:
            shell.run(sys.stdin.read())
    return 0 if shell.succeeded or (sys.stdin.isatty() and text is None) else 1


def run_file(url: str, path: Path) -> int:
    """Run the statements in a file. Returns the exit code. Raises HeadraceError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeadraceError("bad_request", f"{path} cannot be read: {error}.") from error
    return run_shell(url, text=text)


def ksql() -> None:
    """The command `ksql [URL]`: the shell under its familiar name."""
    arguments = sys.argv[1:]
    text: str | None = None
    if len(arguments) > 1 and arguments[0] in ("-e", "--execute"):
        text, arguments = arguments[1], arguments[2:]
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("Usage: ksql [-e STATEMENTS] [URL]", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(run_shell(*arguments, text=text))
    except HeadraceError as error:
        print(f"ksql: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
