"""Reads `.proto` texts of proto2, proto3 and editions. Checks the grammar, not the meaning (`checking.py`).

Groups of proto2, which were given up in 2008, are not supported.
"""

from __future__ import annotations

import itertools
from typing import Final

from headrace.registry.protobuf.lexer import END, NAME, NUMBER, SYMBOL, TEXT, Token, tokens
from headrace.registry.protobuf.literals import quoted, unquoted
from headrace.registry.protobuf.model import (
    HIGHEST_ENUM_NUMBER,
    HIGHEST_NUMBER,
    OPTIONAL,
    REPEATED,
    REQUIRED,
    Enum,
    EnumValue,
    Extension,
    Field,
    File,
    Message,
    Method,
    OneOf,
    Option,
    ProtobufError,
    Range,
    Service,
)

_LABELS: Final = (OPTIONAL, REQUIRED, REPEATED)
_DEEPEST: Final = 50


def parse(text: str) -> File:
    """Raises ProtobufError."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    def file(self) -> File:
        file = File()
        while self._peek().kind != END:
            if not self._take(";"):
                self._top_level(file)
        return file

    def _top_level(self, file: File) -> None:
        word = self._name()
        if word in {"syntax", "edition"}:
            self._expect("=")
            setattr(file, word, self._string())
            self._expect(";")
        elif word == "package":
            file.package = self._full_name()
            self._expect(";")
        elif word == "import":
            kind = self._take_word("public", "weak")
            {"public": file.public_imports, "weak": file.weak_imports}.get(kind, file.imports).append(
                self._string()
            )
            self._expect(";")
        elif word == "option":
            file.options.append(self._option_statement())
        elif word == "message":
            file.messages.append(self._message())
        elif word == "enum":
            file.enums.append(self._enum())
        elif word == "extend":
            file.extensions.append(self._extension())
        elif word == "service":
            file.services.append(self._service())
        else:
            raise self._unexpected(self._tokens[self._next - 1], "a definition")

    def _message(self) -> Message:
        message = Message(name=self._name())
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ProtobufError(f"messages are nested more than {_DEEPEST} deep")
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                self._member(message)
        self._depth -= 1
        return message

    def _member(self, message: Message) -> None:
        # Each of these words may also be the name of a field's type.
        word, follows, third = self._peek().text, self._peek(1), self._peek(2).text
        opens = follows.kind == NAME and third == "{"
        if word == "message" and opens:
            self._name()
            message.messages.append(self._message())
        elif word == "enum" and opens:
            self._name()
            message.enums.append(self._enum())
        elif word == "oneof" and opens:
            self._name()
            self._oneof(message)
        elif word == "extend" and third != "=":
            self._name()
            message.extensions.append(self._extension())
        elif self._is_option():
            self._name()
            message.options.append(self._option_statement())
        elif word == "reserved" and (
            follows.kind in {NUMBER, TEXT} or follows.text == "-" or self._ends_name(2)
        ):
            self._name()
            self._reserved(message.reserved, message.reserved_names, HIGHEST_NUMBER)
        elif word == "extensions" and follows.kind == NUMBER:
            self._name()
            self._ranges(message.extension_ranges, HIGHEST_NUMBER)
            self._options()
            self._expect(";")
        else:
            message.fields.append(self._field())

    def _is_option(self) -> bool:
        return self._peek().text == "option" and (self._peek(1).kind == NAME or self._peek(1).text == "(")

    def _ends_name(self, ahead: int) -> bool:
        """Editions reserve names without quotes."""
        return self._peek(ahead - 1).kind == NAME and self._peek(ahead).text in {",", ";"}

    def _oneof(self, message: Message) -> None:
        name = self._name()
        options: list[Option] = []
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._is_option():
                self._name()
                options.append(self._option_statement())
            else:
                message.fields.append(self._field(oneof=name))
        message.oneofs.append(OneOf(name=name, options=tuple(options)))

    def _field(self, *, oneof: str = "") -> Field:
        label, key = "", ""
        if self._peek().text in _LABELS and self._peek(1).text != "=" and self._peek(2).text != "=":
            label = self._name()
        if self._peek().text == "group" and self._peek(1).kind == NAME and self._peek(4).text == "{":
            raise ProtobufError(f"{self._where(self._peek())}groups are not supported")
        if self._peek().text == "map" and self._peek(1).text == "<":
            self._name()
            self._expect("<")
            key = self._name()
            self._expect(",")
            kind = self._type_name()
            self._expect(">")
        else:
            kind = self._type_name()
        name = self._name()
        self._expect("=")
        number = self._integer()
        options = self._options()
        self._expect(";")
        return Field(
            name=name, number=number, type=kind, label=label, key=key, oneof=oneof, options=tuple(options)
        )

    def _enum(self) -> Enum:
        name = self._name()
        values: list[EnumValue] = []
        options: list[Option] = []
        reserved: list[Range] = []
        reserved_names: list[str] = []
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            word = self._name()
            if word == "option" and self._peek().text != "=":
                options.append(self._option_statement())
            elif word == "reserved" and self._peek().text != "=":
                self._reserved(reserved, reserved_names, HIGHEST_ENUM_NUMBER)
            else:
                self._expect("=")
                number = self._integer()
                values.append(EnumValue(name=word, number=number, options=tuple(self._options())))
                self._expect(";")
        return Enum(
            name=name,
            values=tuple(values),
            options=tuple(options),
            reserved=tuple(reserved),
            reserved_names=tuple(reserved_names),
        )

    def _extension(self) -> Extension:
        extendee = self._type_name()
        fields: list[Field] = []
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                fields.append(self._field())
        return Extension(extendee=extendee, fields=tuple(fields))

    def _service(self) -> Service:
        name = self._name()
        methods: list[Method] = []
        options: list[Option] = []
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            word = self._name()
            if word == "option":
                options.append(self._option_statement())
            elif word == "rpc":
                methods.append(self._method())
            else:
                raise self._unexpected(self._tokens[self._next - 1], "rpc or option")
        return Service(name=name, methods=tuple(methods), options=tuple(options))

    def _method(self) -> Method:
        name = self._name()
        streams_requests, request = self._message_of_method()
        if self._name() != "returns":
            raise self._unexpected(self._tokens[self._next - 1], "returns")
        streams_responses, response = self._message_of_method()
        options: list[Option] = []
        if self._take("{"):
            while not self._take("}"):
                if not self._take(";"):
                    if self._name() != "option":
                        raise self._unexpected(self._tokens[self._next - 1], "option")
                    options.append(self._option_statement())
        else:
            self._expect(";")
        return Method(
            name=name,
            request=request,
            response=response,
            streams_requests=streams_requests,
            streams_responses=streams_responses,
            options=tuple(options),
        )

    def _message_of_method(self) -> tuple[bool, str]:
        self._expect("(")
        streams = self._peek().text == "stream" and self._peek(1).text != ")"
        if streams:
            self._name()
        name = self._type_name()
        self._expect(")")
        return streams, name

    def _reserved(self, ranges: list[Range], names: list[str], highest: int) -> None:
        if self._peek().kind in {TEXT, NAME}:
            names.append(self._string() if self._peek().kind == TEXT else self._name())
            while self._take(","):
                names.append(self._string() if self._peek().kind == TEXT else self._name())
        else:
            self._ranges(ranges, highest)
        self._expect(";")

    def _ranges(self, ranges: list[Range], highest: int) -> None:
        while True:
            first = last = self._integer()
            if self._take_word("to"):
                last = highest if self._take_word("max") else self._integer()
            ranges.append(Range(first=first, last=last))
            if not self._take(","):
                return

    def _option_statement(self) -> Option:
        option = self._option()
        self._expect(";")
        return option

    def _options(self) -> list[Option]:
        options: list[Option] = []
        if self._take("["):
            options.append(self._option())
            while self._take(","):
                options.append(self._option())
            self._expect("]")
        return options

    def _option(self) -> Option:
        parts: list[str] = []
        while True:
            if self._take("("):
                parts.append(f"({self._type_name()})")
                self._expect(")")
            else:
                parts.append(self._name())
            if not self._take("."):
                break
        self._expect("=")
        return Option(name=".".join(parts), value=self._value())

    def _value(self) -> str:
        """The value of an option, with single spaces between its tokens."""
        first = self._peek()
        if first.text == "{":
            return self._aggregate()
        if first.kind == TEXT:
            parts = [self._bytes()]
            while self._peek().kind == TEXT:
                parts.append(self._bytes())
            return quoted(b"".join(parts))
        sign = "-" if self._take("-") else ""
        self._take("+")
        token = self._token()
        if token.kind == NAME:
            return sign + self._rest_of_name(token.text)
        if token.kind == NUMBER:
            return sign + token.text
        raise self._unexpected(token, "a value")

    def _aggregate(self) -> str:
        found: list[str] = []
        depth = 0
        while True:
            token = self._token()
            if token.kind == END:
                raise self._unexpected(token, "}")
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if depth > _DEEPEST:
                raise ProtobufError(f"{self._where(token)}values are nested more than {_DEEPEST} deep")
            found.append(token.text)
            if depth == 0:
                return _joined(found)

    def _rest_of_name(self, first: str) -> str:
        parts = [first]
        while self._take("."):
            parts.append(self._name())
        return ".".join(parts)

    def _full_name(self) -> str:
        return self._rest_of_name(self._name())

    def _type_name(self) -> str:
        return ("." if self._take(".") else "") + self._full_name()

    def _string(self) -> str:
        token = self._peek()
        try:
            return self._bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._unexpected(token, "a string in UTF-8") from error

    def _bytes(self) -> bytes:
        token = self._token()
        if token.kind != TEXT:
            raise self._unexpected(token, "a string")
        return unquoted(token.text)

    def _integer(self) -> int:
        sign = -1 if self._take("-") else 1
        token = self._token()
        text = token.text.lower()
        try:
            if token.kind != NUMBER or len(text) > _LONGEST_NUMBER:
                raise ValueError
            return sign * int(text, 16 if text.startswith("0x") else 8 if text.startswith("0") else 10)
        except ValueError as error:
            raise self._unexpected(token, "a whole number") from error

    def _name(self) -> str:
        token = self._token()
        if token.kind != NAME:
            raise self._unexpected(token, "a name")
        return token.text

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _token(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _take(self, symbol: str) -> bool:
        token = self._peek()
        is_there = token.kind == SYMBOL and token.text == symbol
        self._next += is_there
        return is_there

    def _take_word(self, *words: str) -> str:
        token = self._peek()
        if token.kind == NAME and token.text in words:
            self._next += 1
            return token.text
        return ""

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._unexpected(self._peek(), f"`{symbol}`")

    def _unexpected(self, token: Token, wanted: str) -> ProtobufError:
        return ProtobufError(f"{self._where(token)}expected {wanted}, found {token.text[:50]}")

    def _where(self, token: Token) -> str:
        return f"line {self._text.count(chr(10), 0, token.place) + 1}: "


_LONGEST_NUMBER: Final = 20
_NO_SPACE_AFTER: Final = frozenset("-./[(")
_NO_SPACE_BEFORE: Final = frozenset("./]),:;")


def _joined(words: list[str]) -> str:
    found = words[0]
    for before, word in itertools.pairwise(words):
        needs_space = before not in _NO_SPACE_AFTER and word not in _NO_SPACE_BEFORE
        found += f" {word}" if needs_space else word
    return found
