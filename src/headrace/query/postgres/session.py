"""One session: what each message does, and what it answers.

Owns the session's state: settings, prepared statements, portals (cursors are portals), the transaction. A
transaction pins nothing: each question sees the newest version of its tables. It has PostgreSQL's states
all the same, since clients rely on them: an error fails the transaction, and it then refuses everything
until it ends.

Invariants: after an error in the extended protocol every message is ignored until Sync; each Query and each
Sync is answered with one ReadyForQuery; statements and held answers are bounded in number. Messages are
handled one at a time. Never opens a socket: `send` takes bytes and waits until the client takes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.query.postgres import commands
from headrace.query.postgres.answers import Answer, ColumnShape, copied, data_rows, formats_of
from headrace.query.postgres.command_reading import command_of
from headrace.query.postgres.commands import Command, CopyOut, Question
from headrace.query.postgres.lexer import StatementText, statements
from headrace.query.postgres.protocol import incoming, outgoing, types
from headrace.query.postgres.protocol.decoding import literal
from headrace.query.postgres.protocol.errors import (
    ACTIVE_TRANSACTION,
    DUPLICATE_CURSOR,
    DUPLICATE_STATEMENT,
    FAILED_TRANSACTION,
    FEATURE_NOT_SUPPORTED,
    INVALID_CURSOR,
    INVALID_STATEMENT,
    NO_ACTIVE_TRANSACTION,
    PROTOCOL_VIOLATION,
    SYNTAX_ERROR,
    FatalError,
    PostgresError,
)
from headrace.query.postgres.questions import Questions
from headrace.query.postgres.settings import REPORTED, Settings
from headrace.query.postgres.translation import Translation

MOST_STATEMENTS: Final = 1_000
MOST_STATEMENT_CHARACTERS: Final = 4 * 1024 * 1024
# Each may hold an answer of the largest size that the engine gives.
MOST_PORTALS: Final = 16
_GUESSED: Final = "this is not PostgreSQL's SQL as it is known here, so it was run as DuckDB's"
_ENDS_FAILED: Final = ("COMMIT", "ROLLBACK", "ROLLBACK TO")

Send = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class _Prepared:
    """A statement as Parse left it. `command` is None for an empty one."""

    command: Command | None
    text: str
    translation: Translation | None = None
    described: tuple[ColumnShape, ...] | None = None

    @property
    def characters(self) -> int:
        return len(self.text) + (len(self.translation.sql) if self.translation is not None else 0)


@dataclass(slots=True, kw_only=True)
class _Portal:
    """A statement with its values. The answer is there once the portal was described or executed."""

    prepared: _Prepared
    literals: tuple[str, ...] = ()
    result_formats: tuple[int, ...] = ()
    answer: Answer | None = None
    hold: bool = False
    is_done: bool = field(default=False)


class Session:
    """Handles messages after startup, from `handle` to `handle`."""

    def __init__(self, questions: Questions, settings: Settings, send: Send) -> None:
        self._questions = questions
        self._settings = settings
        self._send_bytes = send
        self._statements: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._status = "I"
        self._ignoring = False
        self._pending: list[bytes] = []
        self._reported = {name: settings.values[name] for name in REPORTED}

    async def handle(self, message: incoming.Message) -> None:
        """Do what a message asks for. Raises FatalError if the connection must end."""
        if isinstance(message, incoming.Sync):
            self._ignoring = False
            self._end_of_group()
            await self._ready()
        elif self._ignoring:
            return
        elif isinstance(message, incoming.Query):
            await self._query(message.sql)
        elif isinstance(message, incoming.Flush):
            await self._flush()
        else:
            try:
                await self._extended(message)
            except FatalError:
                raise
            except PostgresError as error:
                self._ignoring = True
                self._fail(error)
                await self._flush()

    async def _ready(self) -> None:
        for name in REPORTED:
            value = self._settings.values[name]
            if value != self._reported[name]:
                self._reported[name] = value
                self._write(outgoing.parameter_status(name, value))
        self._write(outgoing.ready_for_query(self._status))
        await self._flush()

    def _write(self, data: bytes) -> None:
        self._pending.append(data)

    async def _flush(self) -> None:
        data, self._pending = b"".join(self._pending), []
        if data:
            await self._send_bytes(data)

    def _fail(self, error: PostgresError) -> None:
        if self._status == "T":
            self._status = "E"
        self._write(outgoing.error_response(error))

    def _end_of_group(self) -> None:
        """Outside a transaction, portals live until Sync."""
        if self._status == "I":
            self._forget_portals()

    def _forget_portals(self) -> None:
        self._portals = {name: portal for name, portal in self._portals.items() if portal.hold}

    # The simple protocol.

    async def _query(self, sql: str) -> None:
        self._portals.pop("", None)
        self._statements.pop("", None)
        try:
            found = statements(sql)
            if not found:
                self._write(outgoing.EMPTY_QUERY_RESPONSE)
            for statement in found:
                await self._simple_statement(statement)
        except FatalError:
            raise
        except PostgresError as error:
            self._fail(error)
        self._end_of_group()
        await self._ready()

    async def _simple_statement(self, statement: StatementText) -> None:
        try:
            command = command_of(statement)
            self._check_transaction(command)
            prepared = await self._prepared(command, statement.text, ())
            if prepared.translation is not None and prepared.translation.types:
                raise PostgresError("42P02", "there is no parameter $1")
            await self._execute(_Portal(prepared=prepared), -1, describe=True)
        except PostgresError as error:
            if error.position is not None:
                error.position += statement.offset
            raise

    # The extended protocol.

    async def _extended(self, message: incoming.Message) -> None:
        if isinstance(message, incoming.Parse):
            await self._parse(message)
        elif isinstance(message, incoming.Bind):
            self._bind(message)
        elif isinstance(message, incoming.Describe):
            await self._describe(message)
        elif isinstance(message, incoming.Execute):
            portal = self._portal(message.portal)
            most = message.most_rows if message.most_rows > 0 else -1
            await self._execute(portal, most, describe=False)
        elif isinstance(message, incoming.Close):
            (self._statements if message.of == "S" else self._portals).pop(message.name, None)
            self._write(outgoing.CLOSE_COMPLETE)
        elif isinstance(message, incoming.Other) and message.kind in ("c", "d", "f"):
            return  # PostgreSQL ignores what is left of a COPY that has failed.
        elif isinstance(message, incoming.Other) and message.kind == "F":
            raise PostgresError(FEATURE_NOT_SUPPORTED, "function calls of the protocol are not supported")
        else:
            raise FatalError(PROTOCOL_VIOLATION, "this message is not expected here")

    async def _parse(self, message: incoming.Parse) -> None:
        if message.name and message.name in self._statements:
            raise PostgresError(DUPLICATE_STATEMENT, f'prepared statement "{message.name}" already exists')
        found = statements(message.sql)
        if len(found) > 1:
            raise PostgresError(SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
        kept = sum(each.characters for each in self._statements.values())
        if len(self._statements) >= MOST_STATEMENTS or kept + len(message.sql) > MOST_STATEMENT_CHARACTERS:
            raise PostgresError("53400", "the session has too many prepared statements")
        command = command_of(found[0]) if found else None
        if command is not None:
            self._check_transaction(command)
        self._statements[message.name] = await self._prepared(
            command, found[0].text if found else "", message.types
        )
        self._write(outgoing.PARSE_COMPLETE)

    def _bind(self, message: incoming.Bind) -> None:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise PostgresError(DUPLICATE_CURSOR, f'cursor "{message.portal}" already exists')
        oids = prepared.translation.types if prepared.translation is not None else ()
        if len(message.values) != len(oids):
            raise PostgresError(
                PROTOCOL_VIOLATION,
                f"bind message supplies {len(message.values)} parameters, "
                f'but prepared statement "{message.statement}" requires {len(oids)}',
            )
        formats = formats_of(len(oids), message.formats)
        literals = tuple(
            literal(value, oid, binary=form == 1)
            for value, oid, form in zip(message.values, oids, formats, strict=True)
        )
        self._keep(
            message.portal,
            _Portal(prepared=prepared, literals=literals, result_formats=message.result_formats),
        )
        self._write(outgoing.BIND_COMPLETE)

    def _keep(self, name: str, portal: _Portal) -> None:
        if name not in self._portals and len(self._portals) >= MOST_PORTALS:
            raise PostgresError("53400", f"a session has at most {MOST_PORTALS} open cursors and portals")
        self._portals[name] = portal

    async def _describe(self, message: incoming.Describe) -> None:
        if message.of == "S":
            prepared = self._statement(message.name)
            oids = prepared.translation.types if prepared.translation is not None else ()
            self._write(outgoing.parameter_description([oid or types.TEXT.oid for oid in oids]))
            self._write_shape(await self._shape(prepared), ())
            return
        portal = self._portal(message.name)
        if isinstance(portal.prepared.command, Question):
            answer = await self._answer(portal)
            self._write_shape(answer.columns, portal.result_formats)
        else:
            self._write_shape(await self._shape(portal.prepared), portal.result_formats)

    def _write_shape(self, columns: Sequence[ColumnShape] | None, formats: Sequence[int]) -> None:
        if columns is None:
            self._write(outgoing.NO_DATA)
            return
        chosen = formats_of(len(columns), formats)
        fields = [column.field(form) for column, form in zip(columns, chosen, strict=True)]
        self._write(outgoing.row_description(fields))

    async def _shape(self, prepared: _Prepared) -> tuple[ColumnShape, ...] | None:
        """The columns that a statement answers with, None for none."""
        command = prepared.command
        if isinstance(command, Question) and prepared.translation is not None:
            if prepared.described is None:
                prepared.described = await self._questions.shape(command, prepared.translation)
            return prepared.described
        if isinstance(command, commands.ShowSetting):
            return self._shown(command.name).columns
        if isinstance(command, commands.Fetch) and not command.move:
            return (await self._answer(self._portal(command.cursor))).columns
        return None

    # Both protocols.

    async def _prepared(self, command: Command | None, text: str, declared: Sequence[int]) -> _Prepared:
        question = self._question_of(command)
        translation = None
        if question is not None:
            translation = await self._questions.translated(question, declared)
            if translation.guessed:
                self._write(outgoing.notice(_GUESSED))
        return _Prepared(command=command, text=text, translation=translation)

    @staticmethod
    def _question_of(command: Command | None) -> Question | None:
        if isinstance(command, commands.Declare | CopyOut):
            return Question(text=command.question)
        return command if isinstance(command, Question) else None

    def _check_transaction(self, command: Command) -> None:
        if self._status != "E":
            return
        if not (isinstance(command, commands.Transaction) and command.action in _ENDS_FAILED):
            raise PostgresError(
                FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )

    async def _answer(self, portal: _Portal) -> Answer:
        question, translation = self._question_of(portal.prepared.command), portal.prepared.translation
        if question is None or translation is None:
            raise PostgresError(INVALID_CURSOR, "this portal has no rows")
        if portal.answer is None:
            portal.answer = await self._questions.answer(question, translation, portal.literals)
            described = portal.prepared.described
            if described is not None and _oids(described) != _oids(portal.answer.columns):
                portal.prepared.described = None
                raise PostgresError(FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
        return portal.answer

    async def _execute(self, portal: _Portal, most: int, *, describe: bool) -> None:
        command = portal.prepared.command
        if command is None:
            self._write(outgoing.EMPTY_QUERY_RESPONSE)
            return
        self._check_transaction(command)
        if isinstance(command, Question):
            answer = await self._answer(portal)
            tag = "EXPLAIN" if command.explain else "SELECT"
            await self._rows(answer, portal, most, tag if command.explain else f"{tag} %d", describe=describe)
        elif isinstance(command, CopyOut):
            await self._copy(await self._answer(portal), command)
        elif isinstance(command, commands.ShowSetting):
            portal.answer = portal.answer or self._shown(command.name)
            await self._rows(portal.answer, portal, most, "SHOW", describe=describe)
        elif isinstance(command, commands.Fetch):
            await self._fetch(command, portal, describe=describe)
        else:
            tag = self._act(command, portal)
            self._write(outgoing.command_complete(tag))

    async def _rows(self, answer: Answer, portal: _Portal, most: int, tag: str, *, describe: bool) -> None:
        formats = formats_of(len(answer.columns), portal.result_formats)
        if describe:
            self._write_shape(answer.columns, formats)
        rows = answer.next_rows(most)
        for piece in data_rows(answer.columns, rows, formats):
            self._write(piece)
            await self._flush()
        if most > 0 and len(rows) == most:
            self._write(outgoing.PORTAL_SUSPENDED)
        else:
            self._write(outgoing.command_complete(tag % len(rows) if "%" in tag else tag))

    async def _copy(self, answer: Answer, options: CopyOut) -> None:
        rows = answer.next_rows(-1)
        self._write(outgoing.copy_out_response(len(answer.columns)))
        for piece in copied(answer.columns, rows, options):
            self._write(piece)
            await self._flush()
        self._write(outgoing.COPY_DONE)
        self._write(outgoing.command_complete(f"COPY {len(rows)}"))

    async def _fetch(self, command: commands.Fetch, portal: _Portal, *, describe: bool) -> None:
        answer = await self._answer(self._portal(command.cursor))
        if command.move:
            moved = len(answer.next_rows(command.rows))
            self._write(outgoing.command_complete(f"MOVE {moved}"))
            return
        part = Answer(answer.columns, answer.next_rows(command.rows))
        await self._rows(part, portal, -1, "FETCH %d", describe=describe)

    def _shown(self, name: str) -> Answer:
        if name == "all":
            rows = [[each, value, ""] for each, value in sorted(self._settings.values.items())]
            return Answer.of_texts(["name", "setting", "description"], rows)
        return Answer.of_texts([name], [[self._settings.show(name)]])

    def _act(self, command: Command, portal: _Portal) -> str:  # noqa: PLR0911, PLR0912 - one command a branch
        """What has no rows. Returns the tag of its answer."""
        match command:
            case commands.Transaction():
                return self._transaction(command)
            case commands.SetSetting(name=name, value=value):
                warning = self._settings.set(name, value)
                if warning:
                    self._write(outgoing.warning(warning))
                return "SET"
            case commands.ResetSettings(name=name):
                self._settings.reset(name)
                return "RESET"
            case commands.Discard(everything=everything):
                if everything:
                    self._statements.clear()
                    self._portals.clear()
                    self._settings.reset("")
                return "DISCARD ALL" if everything else "DISCARD"
            case commands.Deallocate(name=name):
                if not name:
                    self._statements.clear()
                    return "DEALLOCATE ALL"
                self._statement(name)
                del self._statements[name]
                return "DEALLOCATE"
            case commands.Declare():
                self._declare(command, portal)
                return "DECLARE CURSOR"
            case commands.CloseCursor(cursor=cursor):
                if not cursor:
                    self._portals.clear()
                    return "CLOSE CURSOR ALL"
                self._portal(cursor)
                del self._portals[cursor]
                return "CLOSE CURSOR"
            case commands.Nothing(tag=tag, warning=warning):
                if warning:
                    self._write(outgoing.warning(warning))
                return tag
        raise AssertionError(f"{command} is handled elsewhere")

    def _declare(self, command: commands.Declare, portal: _Portal) -> None:
        if self._status == "I" and not command.hold:
            raise PostgresError(
                NO_ACTIVE_TRANSACTION, "DECLARE CURSOR can only be used in transaction blocks"
            )
        if command.cursor in self._portals:
            raise PostgresError(DUPLICATE_CURSOR, f'cursor "{command.cursor}" already exists')
        rows = _Prepared(
            command=Question(text=command.question),
            text=command.question,
            translation=portal.prepared.translation,
        )
        self._keep(command.cursor, _Portal(prepared=rows, literals=portal.literals, hold=command.hold))

    def _transaction(self, command: commands.Transaction) -> str:
        if command.action == "BEGIN":
            if self._status == "T":
                self._write(
                    outgoing.warning("there is already a transaction in progress", state=ACTIVE_TRANSACTION)
                )
            self._status = "T"
            return command.tag
        if command.action in ("COMMIT", "ROLLBACK"):
            tag = "ROLLBACK" if self._status == "E" else command.tag
            if self._status == "I":
                self._write(
                    outgoing.warning("there is no transaction in progress", state=NO_ACTIVE_TRANSACTION)
                )
            self._status = "I"
            self._forget_portals()
            return tag
        if self._status == "I":
            raise PostgresError(
                NO_ACTIVE_TRANSACTION, f"{command.action} can only be used in transaction blocks"
            )
        self._status = "T"
        return command.tag

    def _statement(self, name: str) -> _Prepared:
        if name not in self._statements:
            raise PostgresError(INVALID_STATEMENT, f'prepared statement "{name}" does not exist')
        return self._statements[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise PostgresError(INVALID_CURSOR, f'portal "{name}" does not exist')
        return self._portals[name]


def _oids(columns: Sequence[ColumnShape]) -> list[int]:
    return [types.type_of(column.duckdb).oid for column in columns]
