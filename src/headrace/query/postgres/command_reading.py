"""What a statement is: a question for the engine, or a command about the session, which stays in the door.

Reads commands that clients send by themselves: transactions, settings, cursors, prepared statements, LISTEN.
What would write is refused with 25006; what is not known is a syntax error. Never executes anything.
"""

from __future__ import annotations

from typing import Final

from headrace.query.postgres.commands import (
    ALL_ROWS,
    CloseCursor,
    Command,
    CopyOut,
    Deallocate,
    Declare,
    Discard,
    Fetch,
    Nothing,
    Question,
    ResetSettings,
    SetSetting,
    ShowSetting,
    Transaction,
)
from headrace.query.postgres.lexer import Kind, StatementText, Token
from headrace.query.postgres.protocol.errors import (
    FEATURE_NOT_SUPPORTED,
    READ_ONLY,
    SYNTAX_ERROR,
    PostgresError,
)

_QUESTIONS: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "DESCRIBE", "SUMMARIZE"})
_WRITES: Final = frozenset(
    {
        "ALTER", "ANALYZE", "CALL", "CLUSTER", "COMMENT", "CREATE", "DELETE", "DO", "DROP", "GRANT",
        "IMPORT", "INSERT", "LOCK", "MERGE", "REASSIGN", "REFRESH", "REINDEX", "REVOKE", "SECURITY",
        "TRUNCATE",
        "UPDATE", "VACUUM", "ATTACH", "DETACH", "INSTALL", "LOAD", "USE", "PRAGMA", "CHECKPOINT", "EXPORT",
    }
)  # fmt: skip
_ISOLATION: Final = "TRANSACTION_ISOLATION"


def command_of(statement: StatementText) -> Command:
    """Raises PostgresError for what is refused or not understood."""
    words = _Words(statement)
    first = words.peek().word
    if first in _QUESTIONS or words.peek().text == "(":
        return Question(text=statement.text)
    if first in _WRITES:
        raise read_only(first)
    reading = _COMMANDS.get(first)
    if reading is None:
        raise syntax_error(words.peek())
    words.take()
    command = reading(words)
    words.end()
    return command


def read_only(what: str) -> PostgresError:
    return PostgresError(
        READ_ONLY,
        f"cannot execute {what} in a read-only transaction",
        hint="The lake is read-only here: connectors and statements write to it.",
    )


def syntax_error(token: Token) -> PostgresError:
    if token is _END:
        return PostgresError(SYNTAX_ERROR, "syntax error at end of input")
    return PostgresError(
        SYNTAX_ERROR, f'syntax error at or near "{token.text[:60]}"', position=token.start + 1
    )


_END: Final = Token(kind=Kind.SYMBOL, text="", start=0)


class _Words:
    """The tokens of one statement, from left to right."""

    def __init__(self, statement: StatementText) -> None:
        self._statement = statement
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        tokens = self._statement.tokens
        return tokens[self._at + ahead] if self._at + ahead < len(tokens) else _END

    def take(self) -> Token:
        token = self.peek()
        self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take these words if all of them come next."""
        if any(self.peek(number).word != word for number, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.peek().word != word:
                raise syntax_error(self.peek())
            self.take()

    def symbol(self, text: str) -> bool:
        if self.peek().kind is Kind.SYMBOL and self.peek().text == text and self.peek() is not _END:
            self.take()
            return True
        return False

    def name(self) -> str:
        if self.peek().kind not in (Kind.WORD, Kind.NAME):
            raise syntax_error(self.peek())
        return self.take().value

    def rest(self) -> str:
        """The text that is left, which must not be empty."""
        if self.peek() is _END:
            raise syntax_error(_END)
        text = self._statement.text[self.peek().start :]
        self._at = len(self._statement.tokens)
        return text

    def between(self, first: Token, last: Token) -> str:
        return self._statement.text[first.start : last.end]

    def inside(self) -> str:
        """The text between this parenthesis and the one that closes it."""
        start, depth = self.take().end, 1
        while depth:
            token = self.take()
            if token is _END:
                raise syntax_error(token)
            if token.kind is Kind.SYMBOL:
                depth += (token.text == "(") - (token.text == ")")
        return self._statement.text[start : token.start]

    def skip(self) -> None:
        self._at = len(self._statement.tokens)

    def end(self) -> None:
        if self.peek() is not _END:
            raise syntax_error(self.peek())


def _explain(words: _Words) -> Command:
    analyze = False
    if words.symbol("("):
        while not words.symbol(")"):
            option = words.take()
            if option is _END:
                raise syntax_error(option)
            value = words.take().word if words.peek().word in ("TRUE", "FALSE", "ON", "OFF", "TEXT") else ""
            if option.word == "FORMAT" and value != "TEXT":
                raise PostgresError(FEATURE_NOT_SUPPORTED, "EXPLAIN gives text only here")
            analyze |= option.word == "ANALYZE" and value not in ("FALSE", "OFF")
            words.symbol(",")
    while words.peek().word in ("ANALYZE", "ANALYSE", "VERBOSE"):
        analyze |= words.take().word != "VERBOSE"
    if words.peek().word not in _QUESTIONS and words.peek().text != "(":
        raise syntax_error(words.peek())
    return Question(text=words.rest(), explain="EXPLAIN ANALYZE" if analyze else "EXPLAIN")


def _begin(words: _Words) -> Command:
    words.accept("TRANSACTION")
    words.accept("WORK")
    _modes(words)
    return Transaction(action="BEGIN", tag="BEGIN")


def _start(words: _Words) -> Command:
    words.expect("TRANSACTION")
    _modes(words)
    return Transaction(action="BEGIN", tag="START TRANSACTION")


def _modes(words: _Words) -> None:
    """Isolation and access modes. Drivers send READ WRITE, so it is accepted; writes are refused anyway."""
    known = {
        "ISOLATION", "LEVEL", "READ", "WRITE", "ONLY", "COMMITTED", "UNCOMMITTED", "REPEATABLE",
        "SERIALIZABLE", "NOT", "DEFERRABLE",
    }  # fmt: skip
    while words.peek().word in known or words.peek().text == ",":
        words.take()


def _commit(words: _Words) -> Command:
    _ = words.accept("TRANSACTION") or words.accept("WORK")
    words.accept("AND", "NO", "CHAIN")
    if words.peek().word == "PREPARED":
        raise PostgresError(FEATURE_NOT_SUPPORTED, "prepared transactions are not supported")
    return Transaction(action="COMMIT", tag="COMMIT")


def _rollback(words: _Words) -> Command:
    _ = words.accept("TRANSACTION") or words.accept("WORK")
    words.accept("AND", "NO", "CHAIN")
    if words.accept("TO"):
        words.accept("SAVEPOINT")
        words.name()
        return Transaction(action="ROLLBACK TO", tag="ROLLBACK")
    return Transaction(action="ROLLBACK", tag="ROLLBACK")


def _savepoint(words: _Words) -> Command:
    words.name()
    return Transaction(action="SAVEPOINT", tag="SAVEPOINT")


def _release(words: _Words) -> Command:
    words.accept("SAVEPOINT")
    words.name()
    return Transaction(action="RELEASE", tag="RELEASE")


def _set(words: _Words) -> Command:
    local = words.accept("LOCAL")
    if words.accept("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        _modes(words)
        return Nothing(tag="SET")
    words.accept("SESSION")
    if words.accept("TRANSACTION"):
        _modes(words)
        return Nothing(tag="SET")
    if words.accept("TIME", "ZONE"):
        return SetSetting(name="timezone", value=_value(words), local=local)
    if words.accept("NAMES"):
        return SetSetting(name="client_encoding", value=_value(words), local=local)
    if words.accept("ROLE") or words.accept("AUTHORIZATION"):
        words.skip()
        return Nothing(tag="SET", warning="there are no roles here: everybody may ask, and nobody may write")
    name = words.name()
    while words.symbol("."):
        name = f"{name}.{words.name()}"
    if not (words.symbol("=") or words.accept("TO")):
        raise syntax_error(words.peek())
    return SetSetting(name=name.lower(), value=_value(words), local=local)


def _value(words: _Words) -> str | None:
    if words.accept("DEFAULT"):
        return None
    parts: list[str] = []
    while words.peek() is not _END:
        if not words.symbol(","):
            sign = "-" if words.symbol("-") else ""
            parts.append(sign + words.take().value)
    if not parts:
        raise syntax_error(_END)
    return ", ".join(parts)


def _show(words: _Words) -> Command:
    if words.accept("TIME", "ZONE"):
        return ShowSetting(name="timezone")
    if words.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return ShowSetting(name=_ISOLATION.lower())
    if words.accept("SESSION", "AUTHORIZATION"):
        return ShowSetting(name="session_authorization")
    if words.peek().word == "TABLES" and words.peek(1) is _END:
        words.take()
        return Question(text="SHOW TABLES")
    name = words.name()
    while words.symbol("."):
        name = f"{name}.{words.name()}"
    return ShowSetting(name=name.lower())


def _reset(words: _Words) -> Command:
    if words.accept("ALL"):
        return ResetSettings(name="")
    if words.accept("TIME", "ZONE"):
        return ResetSettings(name="timezone")
    if words.accept("SESSION", "AUTHORIZATION"):
        return Nothing(tag="RESET")
    return ResetSettings(name=words.name().lower())


def _discard(words: _Words) -> Command:
    what = words.take().word
    if what not in ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        raise syntax_error(words.peek(-1))
    return Discard(everything=what == "ALL")


def _deallocate(words: _Words) -> Command:
    words.accept("PREPARE")
    return Deallocate(name="" if words.accept("ALL") else words.name())


def _declare(words: _Words) -> Command:
    cursor = words.name()
    while words.peek().word in ("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"):
        word = words.take().word
        if word == "BINARY":
            raise PostgresError(FEATURE_NOT_SUPPORTED, "binary cursors are not supported")
        if word == "SCROLL":
            raise PostgresError(FEATURE_NOT_SUPPORTED, "cursors go forward only here")
        if word == "NO":
            words.expect("SCROLL")
    words.expect("CURSOR")
    hold = words.accept("WITH", "HOLD")
    _ = hold or words.accept("WITHOUT", "HOLD")
    words.expect("FOR")
    return Declare(cursor=cursor, question=words.rest(), hold=hold)


def _fetch(words: _Words, *, move: bool = False) -> Command:
    rows = 1
    if words.peek().word in ("BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
        raise PostgresError(FEATURE_NOT_SUPPORTED, "cursors go forward only here")
    _ = words.accept("NEXT") or words.accept("FORWARD")
    if words.accept("ALL"):
        rows = ALL_ROWS
    elif words.peek().kind is Kind.NUMBER and words.peek().text.isdigit():
        rows = int(words.take().text)
    elif words.peek().text == "-":
        raise PostgresError(FEATURE_NOT_SUPPORTED, "cursors go forward only here")
    _ = words.accept("FROM") or words.accept("IN")
    return Fetch(cursor=words.name(), rows=rows, move=move)


def _move(words: _Words) -> Command:
    return _fetch(words, move=True)


def _close(words: _Words) -> Command:
    return CloseCursor(cursor="" if words.accept("ALL") else words.name())


def _copy(words: _Words) -> Command:
    if words.peek().text == "(":
        question = words.inside()
    else:
        start = words.take()
        end = start
        while words.peek() is not _END and words.peek().word not in ("TO", "FROM"):
            end = words.take()
        columns = ""
        question = words.between(start, end)
        if "(" in question:
            question, _, columns = question.partition("(")
        question = f"SELECT {columns.rstrip(') ') or '*'} FROM {question}"
    if words.peek().word == "FROM":
        raise read_only("COPY FROM")
    words.expect("TO")
    if not words.accept("STDOUT"):
        raise PostgresError("42501", "COPY writes to STDOUT only here", hint="Use \\copy in psql.")
    return _copy_options(words, question)


def _copy_options(words: _Words, question: str) -> CopyOut:
    options: dict[str, str] = {}
    words.accept("WITH")
    in_list = words.symbol("(")
    while words.peek() is not _END and not (in_list and words.symbol(")")):
        option = words.take()
        if option.word in ("FORMAT", "DELIMITER", "NULL", "HEADER"):
            _ = words.accept("AS")
            has_value = words.peek() is not _END and words.peek().text not in (",", ")")
            bare = option.word == "HEADER" and words.peek().word not in ("TRUE", "FALSE", "ON", "OFF")
            options[option.word] = words.take().value if has_value and not bare else "true"
        elif option.word in ("CSV", "TEXT"):
            options["FORMAT"] = option.word.lower()
        elif option.text != ",":
            raise PostgresError(FEATURE_NOT_SUPPORTED, f"COPY has no option {option.text} here")
    form = options.get("FORMAT", "text")
    delimiter = options.get("DELIMITER", "," if form == "csv" else "\t")
    if form not in ("csv", "text") or len(delimiter) != 1:
        raise PostgresError(FEATURE_NOT_SUPPORTED, "COPY gives the formats text and csv, with one delimiter")
    return CopyOut(
        question=question,
        csv=form == "csv",
        header=options.get("HEADER", "false") in ("true", "on"),
        delimiter=delimiter,
        null=options.get("NULL", "" if form == "csv" else "\\N"),
    )


def _listen(words: _Words) -> Command:
    words.skip()
    return Nothing(tag="LISTEN", warning="nothing is ever notified here")


def _unlisten(words: _Words) -> Command:
    words.skip()
    return Nothing(tag="UNLISTEN")


def _prepare(_: _Words) -> Command:
    raise PostgresError(
        FEATURE_NOT_SUPPORTED,
        "PREPARE and EXECUTE as statements are not supported",
        hint="Use your driver's prepared statements, which work.",
    )


_COMMANDS: Final = {
    "ABORT": _rollback,
    "BEGIN": _begin,
    "CLOSE": _close,
    "COMMIT": _commit,
    "COPY": _copy,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "DISCARD": _discard,
    "END": _commit,
    "EXECUTE": _prepare,
    "EXPLAIN": _explain,
    "FETCH": _fetch,
    "LISTEN": _listen,
    "MOVE": _move,
    "PREPARE": _prepare,
    "RELEASE": _release,
    "RESET": _reset,
    "ROLLBACK": _rollback,
    "SAVEPOINT": _savepoint,
    "SET": _set,
    "SHOW": _show,
    "START": _start,
    "UNLISTEN": _unlisten,
}
