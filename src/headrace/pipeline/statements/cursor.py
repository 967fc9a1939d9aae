"""A position among tokens, and what the parser expected there: the base of all parsers.

The cursor notes everything that a parser looks for and does not find at a position. An error lists all of it,
and the expected word nearest to the actual one. Invariant: `accept…` advances only if it finds what it looks
for.
"""

from __future__ import annotations

from typing import NoReturn

from headrace.pipeline.statements.errors import SyntaxProblemError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tokens import RESERVED, Token, TokenKind

# A longer list of expected words would not help.
_MOST_EXPECTED = 12


class Cursor:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._expected: dict[str, None] = {}
        self._expected_at = -1

    @property
    def token(self) -> Token:
        return self._tokens[self._place]

    @property
    def at(self) -> Position:
        return self.token.at

    @property
    def previous(self) -> Token:
        return self._tokens[self._place - 1]

    def ahead(self, count: int = 1) -> Token:
        return self._tokens[min(self._place + count, len(self._tokens) - 1)]

    def move(self) -> Token:
        token = self.token
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    # Looking for something.

    def accept_word(self, *words: str) -> str | None:
        """One of these words."""
        token = self.token
        if token.kind is TokenKind.WORD and token.value in words:
            self.move()
            return token.value
        self._note(*words)
        return None

    def accept_words(self, *words: str) -> bool:
        """All of these words, one after the other."""
        for count, word in enumerate(words):
            token = self.ahead(count)
            if token.kind is not TokenKind.WORD or token.value != word:
                self._note(" ".join(words))
                return False
        for _ in words:
            self.move()
        return True

    def at_words(self, *words: str) -> bool:
        """Whether these words come next. Notes nothing."""
        return all(
            self.ahead(count).kind is TokenKind.WORD and self.ahead(count).value == word
            for count, word in enumerate(words)
        )

    def expect_word(self, *words: str) -> str:
        return self.accept_word(*words) or self.fail()

    def accept_symbol(self, *symbols: str) -> str | None:
        token = self.token
        if token.kind is TokenKind.SYMBOL and token.value in symbols:
            self.move()
            return token.value
        self._note(*(f"'{symbol}'" for symbol in symbols))
        return None

    def at_symbol(self, symbol: str, ahead: int = 0) -> bool:
        token = self.ahead(ahead)
        return token.kind is TokenKind.SYMBOL and token.value == symbol

    def expect_symbol(self, *symbols: str) -> str:
        return self.accept_symbol(*symbols) or self.fail()

    def accept_kind(self, kind: TokenKind, called: str) -> Token | None:
        if self.token.kind is kind:
            return self.move()
        self._note(called)
        return None

    def at_name(self, ahead: int = 0) -> bool:
        token = self.ahead(ahead)
        return token.kind is TokenKind.NAME or (token.kind is TokenKind.WORD and token.value not in RESERVED)

    def accept_name(self, called: str) -> str | None:
        """A name, quoted or not."""
        if self.at_name():
            return self.move().value
        self._note(called)
        return None

    def expect_name(self, called: str) -> str:
        name = self.accept_name(called)
        if name is None:
            token = self.token
            if token.kind is TokenKind.WORD:
                raise SyntaxProblemError(
                    f"{token.value} is a reserved word; {called} was expected.",
                    token.at,
                    remedy=f"Quote it to use it as a name: `{token.value}`.",
                )
            self.fail()
        return name

    def expect_written_name(self, called: str) -> str:
        """A case-sensitive name: as written, without its quotes."""
        token = self.token
        name = self.expect_name(called)
        return token.written if token.kind is TokenKind.WORD else name

    def expect_text(self, called: str) -> str:
        token = self.accept_kind(TokenKind.TEXT, called)
        return self.fail() if token is None else token.value

    def expect_integer(self, called: str) -> int:
        token = self.accept_kind(TokenKind.INTEGER, called)
        return self.fail() if token is None else int(token.value)

    # Errors.

    def note(self, *expected: str) -> None:
        self._note(*expected)

    def fail(self) -> NoReturn:
        """Raise an error: the current token is not allowed here."""
        token = self.token
        expected = list(self._expected) if self._expected_at == self._place else []
        if token.kind is TokenKind.END:
            found = "The statement ends too early"
        elif token.kind is TokenKind.TEXT:
            found = f"Unexpected '{token.value}'"
        else:
            found = f"Unexpected {token.value}"
        message = f"{found}; expected {_listed(expected)}." if expected else f"{found}."
        raise SyntaxProblemError(
            message,
            token.at,
            remedy=did_you_mean(token.value, [word for word in expected if word[:1].isupper()]).strip(),
        )

    def _note(self, *expected: str) -> None:
        if self._expected_at != self._place:
            self._expected_at = self._place
            self._expected = {}
        for each in expected:
            self._expected[each] = None


def _listed(expected: list[str]) -> str:
    shown = expected[:_MOST_EXPECTED]
    if len(expected) > len(shown):
        return f"{', '.join(shown)} or others"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
