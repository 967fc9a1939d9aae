"""The statement service: statements in, answers out.

`execute` executes the statements of a text, one after the other. Invariants: a text that cannot be parsed
changes nothing; if a statement fails, the effects of earlier ones stay, and the error includes their answers;
an answered statement is in the statement log; a query that a statement has ended writes no more when it is
answered, or the answer warns of it. Queries (SELECT, PRINT) have continuing answers, which `begin`
starts.

Never runs a persistent query: the pipeline process follows the same log and does that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.catalogue.records import RemoveQuery
from headrace.pipeline.catalogue.statement_log import Decision, StatementLog
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.formats import Schemas
from headrace.pipeline.serving.asserting import assert_schema, assert_topic
from headrace.pipeline.serving.definitions import Definition, Definitions
from headrace.pipeline.serving.entities import Entity, command_status, entity, warning
from headrace.pipeline.serving.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    QUERY_ENDPOINT,
    SHUTTING_DOWN,
    StatementFailedError,
    code_of,
)
from headrace.pipeline.serving.explaining import Explaining
from headrace.pipeline.serving.inferring import inferred_columns
from headrace.pipeline.serving.inserting import Inserter, row_of, target_of
from headrace.pipeline.serving.listing import Listing
from headrace.pipeline.serving.named import NothingToDoError
from headrace.pipeline.serving.pull_queries import PullAnswer, PullQueries
from headrace.pipeline.serving.push_queries import PushQueries, PushQuery
from headrace.pipeline.serving.rollups import RollupStatements
from headrace.pipeline.serving.session import Session, bare, is_prohibited
from headrace.pipeline.serving.sink_schemas import check_sink_schemas
from headrace.pipeline.serving.spark_plans import spark_plan_of
from headrace.pipeline.serving.table_views import TableViews
from headrace.pipeline.serving.topic_printing import PrintedTopic
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.position import NOWHERE, Position
from headrace.pipeline.statements.printing import sql
from headrace.pipeline.statements.tree import (
    AssertSchema,
    AssertTopic,
    ChangeQuery,
    CreateRollup,
    Define,
    Describe,
    DescribeFunction,
    Drop,
    DropRollup,
    Explain,
    InsertValues,
    Parsed,
    Print,
    Query,
    QueryAction,
    RunScript,
    SetProperty,
    Show,
    Shown,
    Undefine,
    UnsetProperty,
)

_log = logging.getLogger(__name__)

# How long the end of a query is waited for: the pipeline notices it between the starts of other queries.
_END_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


class StatementService:
    """Safe for several threads; every method may block."""

    def __init__(
        self,
        *,
        log: StatementLog,
        cluster: Cluster,
        schemas: Schemas,
        settings: Settings | None = None,
        statuses: Callable[[], Iterable[QueryStatus]] = tuple,
        rollups: RollupStatements | None = None,
    ) -> None:
        """`statuses` are those that the pipeline process reports; `settings` are its settings.

        Without `rollups` there are none; otherwise they are stopped with this.
        """
        self.log = log
        self.cluster = cluster
        self.schemas = schemas
        settings = settings or Settings()
        self._statuses = statuses
        self._rollups = rollups
        self._ending = threading.Event()
        self._views = TableViews(cluster, schemas)
        self._pull = PullQueries(cluster=cluster, schemas=schemas, views=self._views)
        self.push = PushQueries(cluster, schemas, settings)
        explaining = Explaining(
            settings=settings,
            statuses=statuses,
            spark_plan=partial(spark_plan_of, cluster),
        )
        self._listing = Listing(cluster=cluster, explaining=explaining, pushed=self.push.statements)
        self._definitions = Definitions(
            cluster=cluster,
            settings=settings,
            infer=partial(inferred_columns, schemas=schemas),
            check_sink=partial(check_sink_schemas, schemas=schemas),
        )

    def start(self) -> None:
        """The caller has started the statement log."""
        self.push.start()

    def end_streams(self) -> None:
        """End all continuing queries; their readers see the end within a moment."""
        self._ending.set()
        self.push.close_all()

    def stop(self) -> None:
        self.end_streams()
        self.push.stop()
        self._views.close()
        if self._rollups is not None:
            self._rollups.stop()

    def execute(self, text: str, session: Session) -> list[Entity]:
        """The answers of the statements that have one. Raises StatementFailedError."""
        check_properties(session)
        answers: list[Entity] = []
        for parsed in parsed_statements(text, session):
            try:
                answer = self._one(parsed, session)
            except StatementFailedError as error:
                raise StatementFailedError(
                    error.message, code=error.code, statement=parsed.text, entities=tuple(answers)
                ) from error
            except HeadraceError as error:
                raise StatementFailedError(
                    str(error), code=code_of(error), statement=parsed.text, entities=tuple(answers)
                ) from error
            if answer is not None:
                answers.append(answer)
        return answers

    def _one(  # noqa: PLR0911, PLR0912 - one for each statement
        self, parsed: Parsed, session: Session
    ) -> Entity | None:
        statement, text = parsed.statement, written(parsed)
        if isinstance(statement, ChangeQuery) and self._ends_push_query(statement):
            return entity("terminate_query", text, queryId=statement.query_id, wasTerminated=True)
        definition = self._definitions.definition(statement, text, session)
        if definition is not None:
            return self._define(definition, parsed, text)
        match statement:
            case CreateRollup() | DropRollup() | Show(what=Shown.ROLLUPS):
                return self._rollup(statement, text)
            case Show():
                return self._listing.show(statement, self.log.read_to_end(), session, text)
            case Describe():
                return self._listing.describe(statement, self.log.read_to_end(), text)
            case DescribeFunction():
                return self._listing.describe_function(statement, text)
            case Explain():
                return self._listing.explain(statement, self.log.read_to_end(), text)
            case InsertValues():
                catalogue = self.log.read_to_end()
                source = target_of(statement.target, catalogue, statement.at)
                self.inserter(source, statement.at).insert(row_of(statement, source, catalogue))
                return None
            case AssertTopic():
                return assert_topic(statement, self.cluster, text)
            case AssertSchema():
                return assert_schema(statement, self.schemas, text)
            case Query() | Print():
                raise StatementFailedError(
                    "The following statement types should be issued to the websocket endpoint '/query':\n"
                    "\t* PRINT\n\t* SELECT",
                    code=QUERY_ENDPOINT,
                    statement=text,
                )
            case RunScript():
                raise UnsupportedError("RUN SCRIPT works only in the shell.", statement.at)
            case _:
                self._set(statement, session)
                return None

    def _rollup(self, statement: CreateRollup | DropRollup | Show, text: str) -> Entity:
        if self._rollups is None:
            raise UnsupportedError("There are no rollups here.", statement.at)
        match statement:
            case CreateRollup():
                return self._rollups.create(statement, text)
            case DropRollup():
                return self._rollups.drop(statement, text)
            case Show():
                return self._rollups.show(text)

    def _ends_push_query(self, statement: ChangeQuery) -> bool:
        named = statement.query_id
        return statement.action is QueryAction.TERMINATE and named is not None and self.push.close(named)

    def _set(self, statement: object, session: Session) -> None:
        match statement:
            case SetProperty():
                if is_prohibited(statement.name):
                    raise StatementError(f"The property {statement.name} cannot be set.", statement.at)
                session.set(statement.name, statement.value)
            case UnsetProperty():
                session.unset(statement.name)
            case Define():
                session.variables[statement.name] = statement.value
            case Undefine():
                session.variables.pop(statement.name, None)

    def _define(self, definition: Definition, parsed: Parsed, text: str) -> Entity:
        decided_on: list[Catalogue] = []
        ended: list[str] = []

        def decide(catalogue: Catalogue) -> Decision:
            decision = definition.decide(catalogue)
            decided_on[:] = [catalogue]
            ended[:] = [effect.id for effect in decision.effects if isinstance(effect, RemoveQuery)]
            return decision

        try:
            outcome = self.log.commit(decide, definition.prepare)
        except NothingToDoError as nothing:
            return warning(text, str(nothing))
        statement = parsed.statement
        self._await_end(ended, definition)
        if isinstance(statement, Drop) and statement.delete_topic:
            self._delete_topic(decided_on[0], statement, definition)
        return command_status(text, outcome, definition.warnings)

    def _await_end(self, ended: Collection[str], definition: Definition) -> None:
        """Wait until the pipeline has stopped these queries, and so says no more of them.

        Whatever they still derive would stand beside what the next statement's query derives from the same
        records, and would bring a topic back that is deleted.
        """
        deadline = time.monotonic() + _END_SECONDS
        while left := {each.query for each in self._statuses()} & {*ended}:
            if time.monotonic() > deadline or self._ending.wait(_PAUSE_SECONDS):
                definition.warnings.append(
                    f"The pipeline has not stopped {', '.join(sorted(left))} yet: records may still follow."
                )
                return

    def _delete_topic(self, before: Catalogue, statement: Drop, definition: Definition) -> None:
        source = before.sources.get(statement.name)
        if source is not None and not self.cluster.delete_topic(source.topic):
            definition.warnings.append(f"Topic {source.topic} did not exist.")

    def begin(self, text: str, session: Session) -> PullAnswer | PushQuery | PrintedTopic:
        """Start answering a SELECT or a PRINT. Raises StatementFailedError."""
        if self._ending.is_set():
            raise StatementFailedError("The server is shutting down", code=SHUTTING_DOWN)
        check_properties(session)
        statements = [
            parsed
            for parsed in parsed_statements(text, session)
            if not self._was_set(parsed.statement, session)
        ]
        if len(statements) != 1:
            raise StatementFailedError(
                f"Expected exactly one KSQL statement; found {len(statements)} instead",
                code=BAD_STATEMENT,
                statement=text,
            )
        (parsed,) = statements
        try:
            return self._begun(parsed, session)
        except HeadraceError as error:
            raise StatementFailedError(str(error), code=code_of(error), statement=parsed.text) from error

    def _begun(self, parsed: Parsed, session: Session) -> PullAnswer | PushQuery | PrintedTopic:
        statement, text = parsed.statement, written(parsed)
        if isinstance(statement, Print):
            return PrintedTopic(statement, self.cluster, self.schemas, self._ending)
        if not isinstance(statement, Query):
            raise StatementFailedError(
                f"Statement type `{type(statement).__name__}` not supported for this resource",
                code=BAD_STATEMENT,
                statement=parsed.text,
            )
        catalogue = self.log.read_to_end()
        if statement.select.emit is None:
            return self._pull.answer(statement, catalogue, text)
        return self.push.begin(statement, catalogue, text, session)

    def _was_set(self, statement: object, session: Session) -> bool:
        is_setting = isinstance(statement, (SetProperty, UnsetProperty, Define, Undefine))
        if is_setting:
            self._set(statement, session)
        return is_setting

    def inserter(self, source: Source, at: Position = NOWHERE) -> Inserter:
        return Inserter(source, self.cluster, self.schemas, at)


def written(parsed: Parsed) -> str:
    """The statement's text for the log, with the values of its variables."""
    return f"{sql(parsed.statement).rstrip(';')};" if "${" in parsed.text else parsed.text


def parsed_statements(text: str, session: Session) -> tuple[Parsed, ...]:
    """Raises StatementFailedError."""
    try:
        return parse(text, variables=session.variables)
    except StatementError as error:
        raise StatementFailedError(str(error), code=BAD_STATEMENT, statement=text) from error


def check_properties(session: Session) -> None:
    """Raises StatementFailedError for properties that a session cannot change."""
    prohibited = sorted(name for name in session.properties if is_prohibited(name))
    if prohibited:
        raise StatementFailedError(prohibited_message(prohibited), code=BAD_REQUEST)
    session.properties = {bare(name): value for name, value in session.properties.items()}


def prohibited_message(names: list[str]) -> str:
    return (
        "One or more properties overrides set locally are prohibited by the KSQL server "
        f"(use UNSET to reset their default value): [{', '.join(names)}]"
    )
