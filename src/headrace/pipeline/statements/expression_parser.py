"""Expressions, by recursive descent: one method per level of precedence, beginning with OR."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import StatementError, SyntaxProblemError, UnsupportedError
from headrace.pipeline.statements.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BooleanLiteral,
    Case,
    Cast,
    ColumnReference,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldAccess,
    FunctionCall,
    InList,
    IntegerLiteral,
    IntervalUnit,
    IsNull,
    Lambda,
    LambdaVariable,
    Like,
    Literal,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negation,
    Not,
    NullLiteral,
    StringLiteral,
    StructConstructor,
    Subscript,
    When,
)
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.tokens import TokenKind
from headrace.pipeline.statements.type_parser import parse_type

UNITS: Final = {
    name: plural
    for plural in ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
    for name in (plural, plural[:-1])
}
ARGUMENT_UNITS: Final = {
    **UNITS,
    **{name: f"{name.rstrip('S')}S" for name in ("WEEK", "WEEKS", "MONTH", "MONTHS", "YEAR", "YEARS")},
}
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
_LARGEST_BIGINT: Final = 2**63 - 1
# Each level is about ten Python calls.
_DEEPEST: Final = 60


class ExpressionParser:
    """Parses expressions at a cursor. Knows the parameters of the enclosing lambdas by name."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._parameters: list[tuple[str, ...]] = []
        self._depth = 0

    def expression(self) -> Expression:
        """Raises SyntaxProblemError, also for nesting that is deeper than any real statement needs."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxProblemError("The expression is nested too deeply.", self._cursor.at)
        try:
            return self._or()
        finally:
            self._depth -= 1

    def value(self) -> Expression:
        """An expression that is not a condition, unless it is in parentheses."""
        return self._concatenation()

    def listed(self, closing: str) -> tuple[Expression, ...]:
        """Expressions separated by commas, up to and including the closing symbol."""
        cursor = self._cursor
        if cursor.accept_symbol(closing):
            return ()
        found = [self.expression()]
        while cursor.accept_symbol(","):
            found.append(self.expression())
        cursor.expect_symbol(closing)
        return tuple(found)

    # Conditions.

    def _or(self) -> Expression:
        left = self._and()
        while True:
            at = self._cursor.at
            if not self._cursor.accept_word("OR"):
                return left
            left = Logical(LogicalOperator.OR, left, self._and(), at=at)

    def _and(self) -> Expression:
        left = self._not()
        while True:
            at = self._cursor.at
            if not self._cursor.accept_word("AND"):
                return left
            left = Logical(LogicalOperator.AND, left, self._not(), at=at)

    def _not(self) -> Expression:
        at = self._cursor.at
        if self._cursor.accept_word("NOT"):
            return Not(self._nested(self._not), at=at)
        return self._predicate()

    def _predicate(self) -> Expression:
        cursor = self._cursor
        operand = self.value()
        at = cursor.at
        if symbol := cursor.accept_symbol(*_COMPARISONS):
            return Comparison(ComparisonOperator(symbol), operand, self.value(), at=at)
        if cursor.accept_word("IS"):
            return self._is(operand, at)
        negated = cursor.accept_word("NOT") is not None
        if cursor.accept_word("BETWEEN"):
            low = self.value()
            cursor.expect_word("AND")
            return Between(operand, low, self.value(), negated, at=at)
        if cursor.accept_word("IN"):
            cursor.expect_symbol("(")
            values = self.listed(")")
            if not values:
                raise SyntaxProblemError("IN () has no values.", at, remedy="Name at least one.")
            return InList(operand, values, negated, at=at)
        if cursor.accept_word("LIKE"):
            pattern = self.value()
            escape = None
            if cursor.accept_word("ESCAPE"):
                escape_at = cursor.at
                escape = cursor.expect_text("one character")
                if len(escape) != 1:
                    raise SyntaxProblemError("ESCAPE takes one character.", escape_at)
            return Like(operand, pattern, escape, negated, at=at)
        if negated:
            cursor.fail()
        return operand

    def _is(self, operand: Expression, at: Position) -> Expression:
        cursor = self._cursor
        negated = cursor.accept_word("NOT") is not None
        if cursor.accept_word("NULL"):
            return IsNull(operand, negated, at=at)
        cursor.expect_word("DISTINCT")
        cursor.expect_word("FROM")
        operator = ComparisonOperator.NOT_DISTINCT if negated else ComparisonOperator.DISTINCT
        return Comparison(operator, operand, self.value(), at=at)

    # Values.

    def _concatenation(self) -> Expression:
        left = self._sum()
        while True:
            at = self._cursor.at
            if not self._cursor.accept_symbol("||"):
                return left
            left = Arithmetic(ArithmeticOperator.ADD, left, self._sum(), at=at)

    def _sum(self) -> Expression:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> Expression:
        return self._arithmetic(("*", "/", "%"), self._signed)

    def _arithmetic(self, symbols: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        left = operand()
        while True:
            at = self._cursor.at
            symbol = self._cursor.accept_symbol(*symbols)
            if symbol is None:
                return left
            left = Arithmetic(ArithmeticOperator(symbol), left, operand(), at=at)

    def _signed(self) -> Expression:
        cursor = self._cursor
        at = cursor.at
        if cursor.at_symbol("-"):
            if (number := self.number()) is not None:
                return self._steps(number)
            cursor.move()
            return Negation(self._nested(self._signed), at=at)
        if cursor.at_symbol("+"):
            cursor.move()
            return self._nested(self._signed)
        result = self._steps(self._primary())
        if cursor.at_words("AT", "TIME", "ZONE"):
            raise UnsupportedError(
                "AT TIME ZONE is not supported.", cursor.at, remedy="Use CONVERT_TZ(t, from, to)."
            )
        return result

    def _nested(self, parse: Callable[[], Expression]) -> Expression:
        """Long sequences of NOT and signs nest, too."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxProblemError("The expression is nested too deeply.", self._cursor.at)
        try:
            return parse()
        finally:
            self._depth -= 1

    def _steps(self, base: Expression) -> Expression:
        """`->field` and `[index]` after it. Leaves `->*` to the parser of select items."""
        cursor = self._cursor
        while True:
            at = cursor.at
            if cursor.at_symbol("->") and not cursor.at_symbol("*", ahead=1):
                cursor.move()
                base = FieldAccess(base, cursor.expect_name("the name of a field"), at=at)
            elif cursor.accept_symbol("["):
                index = self.expression()
                cursor.expect_symbol("]")
                base = Subscript(base, index, at=at)
            else:
                return base

    def number(self) -> Literal | None:
        """A number, with its sign."""
        cursor = self._cursor
        at = cursor.at
        ahead = 1 if cursor.at_symbol("-") else 0
        kind = cursor.ahead(ahead).kind
        if kind not in (TokenKind.INTEGER, TokenKind.DECIMAL, TokenKind.DOUBLE):
            cursor.note("a number")
            return None
        if ahead:
            cursor.move()
        text = f"{'-' if ahead else ''}{cursor.move().value}"
        if kind is TokenKind.INTEGER:
            if not -_LARGEST_BIGINT - 1 <= int(text) <= _LARGEST_BIGINT:
                raise StatementError(f"{text} is not a BIGINT.", at, remedy=f"As a decimal: {text}.0.")
            return IntegerLiteral(int(text), at=at)
        if kind is TokenKind.DECIMAL:
            return DecimalLiteral(Decimal(text), at=at)
        return DoubleLiteral(float(text), at=at)

    def literal(self) -> Literal | None:
        cursor = self._cursor
        at = cursor.at
        if (text := cursor.accept_kind(TokenKind.TEXT, "a text")) is not None:
            return StringLiteral(text.value, at=at)
        if (word := cursor.accept_word("TRUE", "FALSE", "NULL")) is not None:
            return NullLiteral(at=at) if word == "NULL" else BooleanLiteral(word == "TRUE", at=at)
        return self.number()

    def _primary(self) -> Expression:
        cursor = self._cursor
        if (literal := self.literal()) is not None:
            return literal
        if cursor.accept_symbol("("):
            inner = self.expression()
            cursor.expect_symbol(")")
            return inner
        at = cursor.at
        if (built := self._built(at)) is not None:
            return built
        if not cursor.at_name() and cursor.token.kind is not TokenKind.WORD:
            cursor.note("a column", "a function")
            cursor.fail()
        # Reserved words may be functions, such as LEFT and REPLACE, but not columns.
        return self._call(at) if cursor.at_symbol("(", ahead=1) else self._column(at)

    def _built(self, at: Position) -> Expression | None:
        """Expressions that begin with a keyword."""
        cursor = self._cursor
        if cursor.accept_word("CASE"):
            return self._case(at)
        if cursor.accept_word("CAST"):
            return self._cast(at)
        if cursor.at_words("ARRAY") and cursor.at_symbol("[", ahead=1):
            cursor.move()
            cursor.move()
            return ArrayConstructor(self.listed("]"), at=at)
        if cursor.at_words("MAP") and cursor.at_symbol("(", ahead=1):
            return self._map(at)
        if cursor.at_words("STRUCT") and cursor.at_symbol("(", ahead=1):
            return self._struct(at)
        return None

    def _column(self, at: Position) -> Expression:
        cursor = self._cursor
        name = cursor.expect_name("a column")
        if cursor.at_symbol(".") and not cursor.at_symbol("*", ahead=1):
            cursor.move()
            return ColumnReference(cursor.expect_name("a column"), name, at=at)
        if any(name in names for names in self._parameters):
            return LambdaVariable(name, at=at)
        return ColumnReference(name, at=at)

    def _case(self, at: Position) -> Case:
        cursor = self._cursor
        operand = None if cursor.at_words("WHEN") else self.value()
        whens = []
        while True:
            when_at = cursor.at
            if not cursor.accept_word("WHEN"):
                break
            condition = self.expression()
            cursor.expect_word("THEN")
            whens.append(When(condition, self.expression(), at=when_at))
        if not whens:
            cursor.fail()
        otherwise = self.expression() if cursor.accept_word("ELSE") else None
        cursor.expect_word("END")
        return Case(operand, tuple(whens), otherwise, at=at)

    def _cast(self, at: Position) -> Cast:
        cursor = self._cursor
        cursor.expect_symbol("(")
        operand = self.expression()
        cursor.expect_word("AS")
        result = Cast(operand, parse_type(cursor), at=at)
        cursor.expect_symbol(")")
        return result

    def _map(self, at: Position) -> MapConstructor:
        cursor = self._cursor
        cursor.move()
        cursor.expect_symbol("(")
        entries: list[tuple[Expression, Expression]] = []
        while not cursor.accept_symbol(")"):
            if entries:
                cursor.expect_symbol(",")
            key = self.expression()
            cursor.expect_symbol(":=")
            entries.append((key, self.expression()))
        return MapConstructor(tuple(entries), at=at)

    def _struct(self, at: Position) -> StructConstructor:
        cursor = self._cursor
        cursor.move()
        cursor.expect_symbol("(")
        fields: list[tuple[str, Expression]] = []
        while not cursor.accept_symbol(")"):
            if fields:
                cursor.expect_symbol(",")
            name_at = cursor.at
            name = cursor.expect_name("the name of a field")
            if any(name == other for other, _ in fields):
                raise StatementError(
                    f"The struct has two fields named {name}.", name_at, remedy="Rename one."
                )
            cursor.expect_symbol(":=")
            fields.append((name, self.expression()))
        return StructConstructor(tuple(fields), at=at)

    # Functions.

    def _call(self, at: Position) -> FunctionCall:
        cursor = self._cursor
        name = cursor.move().value
        cursor.expect_symbol("(")
        if cursor.at_symbol("*") and cursor.at_symbol(")", ahead=1):
            cursor.move()
            cursor.move()
            return FunctionCall(name, (), star=True, at=at)
        arguments: list[Expression] = []
        while not cursor.accept_symbol(")"):
            if arguments:
                cursor.expect_symbol(",")
            arguments.append(self._argument())
        return FunctionCall(name, tuple(arguments), at=at)

    def _argument(self) -> Expression:
        cursor = self._cursor
        at = cursor.at
        token = cursor.token
        if token.kind is TokenKind.WORD and token.value in ARGUMENT_UNITS:
            behind = cursor.ahead()
            if behind.kind is TokenKind.SYMBOL and behind.value in (",", ")"):
                cursor.move()
                return IntervalUnit(ARGUMENT_UNITS[token.value], at=at)
        if cursor.at_name() and cursor.at_symbol("=>", ahead=1):
            return self._lambda((cursor.move().value,), at)
        if cursor.at_symbol("(") and self._begins_lambda():
            cursor.move()
            names = [cursor.expect_name("a parameter")]
            while cursor.accept_symbol(","):
                names.append(cursor.expect_name("a parameter"))
            cursor.expect_symbol(")")
            return self._lambda(tuple(names), at)
        return self.expression()

    def _begins_lambda(self) -> bool:
        """Whether names in parentheses followed by an arrow come next."""
        cursor = self._cursor
        ahead = 1
        while cursor.at_name(ahead):
            ahead += 1
            if cursor.at_symbol(")", ahead):
                return cursor.at_symbol("=>", ahead + 1)
            if not cursor.at_symbol(",", ahead):
                return False
            ahead += 1
        return False

    def _lambda(self, parameters: tuple[str, ...], at: Position) -> Lambda:
        self._cursor.expect_symbol("=>")
        self._parameters.append(parameters)
        try:
            return Lambda(parameters, self.expression(), at=at)
        finally:
            self._parameters.pop()
