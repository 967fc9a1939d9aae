"""WITH (…): which properties exist, and which values they may have.

They are those of ksqlDB, and GLOBAL. Unknown ones are refused with a suggestion; those of ksqlDB that have no
meaning here are refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, KeyWindow, TimestampColumn
from headrace.pipeline.expressions.functions.time_parsing import why_unreadable
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expressions import BooleanLiteral, IntegerLiteral, StringLiteral
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import UNIT_MILLISECONDS, WindowKind
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import Property
from headrace.pipeline.statements.types import BIGINT, TIMESTAMP, VARCHAR

SINK: Final = (
    "KAFKA_TOPIC",
    "FORMAT",
    "KEY_FORMAT",
    "VALUE_FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "RETENTION_MS",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE",
    "KEY_DELIMITER",
    "VALUE_DELIMITER",
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "KEY_SCHEMA_FULL_NAME",
    "VALUE_SCHEMA_FULL_NAME",
    "VALUE_AVRO_SCHEMA_FULL_NAME",
    "GLOBAL",
)
SOURCE: Final = (*SINK, "WINDOW_TYPE", "WINDOW_SIZE")
INSERT: Final = ("QUERY_ID",)
_NOT_HERE: Final = (
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
    "SOURCED_BY_CONNECTOR",
    "SOURCE_CONNECTOR",
)
# As in ksqlDB. The id names a folder, a key of `_query_commits` and a part of headers; ids that the platform
# itself makes begin with one of these, or have a hyphen.
_QUERY_ID: Final = re.compile(r"[A-Za-z0-9_]{1,200}")
_RESERVED_QUERY_IDS: Final = ("CSAS_", "CTAS_", "CST_", "INSERTQUERY_", "TRANSIENT_")
_FORMATS_NOT_HERE: Final = ("PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")
_DELIMITERS: Final = {"TAB": "\t", "SPACE": " "}


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of one WITH clause. Values may be quoted or not, as in ksqlDB."""

    given: dict[str, Property]
    at: Position

    @classmethod
    def of(cls, given: tuple[Property, ...], known: tuple[str, ...], at: Position) -> Properties:
        for each in given:
            if each.name == "CLEANUP_POLICY":
                raise StatementError(
                    "CLEANUP_POLICY cannot be set: tables are compacted, streams are not.", each.at
                )
            if each.name in _NOT_HERE:
                raise UnsupportedError(f"The property {each.name} is not supported.", each.at)
            if each.name not in known:
                raise StatementError(
                    f"There is no property {each.name}.",
                    each.at,
                    remedy=did_you_mean(each.name, known).strip() or f"There are {', '.join(known)}.",
                )
        return cls({each.name: each for each in given}, at)

    def where(self, name: str) -> Position:
        return self.given[name].at if name in self.given else self.at

    def text(self, name: str) -> str | None:
        given = self.given.get(name)
        if given is None:
            return None
        if not isinstance(given.value, StringLiteral):
            raise StatementError(f"{name} must be a quoted text.", given.value.at)
        return given.value.value

    def whole(self, name: str, *, least: int = 1) -> int | None:
        given = self.given.get(name)
        if given is None:
            return None
        value = given.value
        number: int | None = None
        if isinstance(value, IntegerLiteral):
            number = value.value
        elif isinstance(value, StringLiteral) and value.value.lstrip("-").isdigit():
            number = int(value.value)
        if number is None or number < least:
            raise StatementError(f"{name} must be a whole number of {least} or more.", value.at)
        return number

    def flag(self, name: str) -> bool | None:
        given = self.given.get(name)
        if given is None:
            return None
        value = given.value
        if isinstance(value, BooleanLiteral):
            return value.value
        if isinstance(value, StringLiteral) and value.value.lower() in ("true", "false"):
            return value.value.lower() == "true"
        raise StatementError(f"{name} must be true or false.", value.at)

    def filled(self, name: str) -> str | None:
        value = self.text(name)
        if value is not None and not value.strip():
            raise StatementError(f"{name} must not be empty.", self.where(name))
        return value

    def query_id(self) -> str | None:
        """The id of a query that the statement names itself."""
        value = self.filled("QUERY_ID")
        if value is None:
            return None
        if not _QUERY_ID.fullmatch(value):
            raise StatementError(
                f"QUERY_ID {value!r} cannot be the id of a query.",
                self.where("QUERY_ID"),
                remedy="Use up to 200 letters from A to Z, digits and underscores.",
            )
        if value.upper().startswith(_RESERVED_QUERY_IDS):
            raise StatementError(
                f"QUERY_ID {value!r} begins like an id that is given automatically.",
                self.where("QUERY_ID"),
                remedy=f"Use an id that does not begin with {', '.join(_RESERVED_QUERY_IDS)}.",
            )
        return value

    # Formats.

    def where_format(self, part: str) -> Position:
        name = f"{part.upper()}_FORMAT"
        return self.where(name if name in self.given else "FORMAT")

    def format(self, part: str) -> Format | None:
        """The format of the key or the value (`part`); FORMAT is for both."""
        name = f"{part.upper()}_FORMAT"
        if "FORMAT" in self.given and name in self.given:
            raise StatementError(
                f"FORMAT is for key and value, so {name} cannot be given as well.",
                self.where(name),
                remedy="Use FORMAT alone, or KEY_FORMAT and VALUE_FORMAT.",
            )
        found = self.text(name) if name in self.given else self.text("FORMAT")
        if found is None:
            return None
        where = self.where_format(part)
        if found.upper() in _FORMATS_NOT_HERE:
            raise UnsupportedError(
                f"The format {found.upper()} is not supported.", where, remedy=f"There are {_formats()}."
            )
        if found.upper() not in Format.__members__:
            hint = did_you_mean(found.upper(), Format.__members__).strip()
            raise StatementError(
                f"There is no format {found}.", where, remedy=hint or f"There are {_formats()}."
            )
        return Format[found.upper()]

    def encoding(self, part: str, chosen: Format, inherited: Encoding | None, columns: int) -> Encoding:
        """The format with its options in the statement; a delimiter is inherited with its format."""
        delimiter = self._delimiter(part, chosen)
        if delimiter is None:
            same = inherited is not None and inherited.format is chosen
            delimiter = inherited.delimiter if same and inherited is not None else ","
        return Encoding(
            format=chosen,
            delimiter=delimiter,
            wrapped=self._wrapped(chosen, columns) if part == "value" else _wrapped_key(chosen, columns),
            schema_id=self._schema_id(part, chosen),
            schema_name=self._schema_name(part, chosen),
        )

    def _delimiter(self, part: str, chosen: Format) -> str | None:
        name = f"{part.upper()}_DELIMITER"
        value = self.text(name)
        if value is None:
            return None
        if chosen is not Format.DELIMITED:
            raise StatementError(
                f"{name} is only for the format DELIMITED, not {chosen.value}.", self.where(name)
            )
        delimiter = _DELIMITERS.get(value.upper(), value)
        if len(delimiter) != 1 or (not value.strip()):
            raise StatementError(
                f"{name} must be one character.",
                self.where(name),
                remedy="A tab is 'TAB', a space is 'SPACE'.",
            )
        if delimiter == '"':
            raise StatementError(f'{name} cannot be ", which quotes fields.', self.where(name))
        return delimiter

    def _wrapped(self, chosen: Format, columns: int) -> bool | None:
        name = "WRAP_SINGLE_VALUE"
        value = self.flag(name)
        if value is None:
            return None
        if columns > 1:
            raise StatementError(
                f"{name} is only for values with one column, but this one has {columns}.", self.where(name)
            )
        if chosen not in (Format.JSON, Format.AVRO) and value:
            raise StatementError(
                f"The format {chosen.value} cannot wrap a single value: {name} cannot be true.",
                self.where(name),
            )
        return value if chosen in (Format.JSON, Format.AVRO) else None

    def _schema_id(self, part: str, chosen: Format) -> int | None:
        name = f"{part.upper()}_SCHEMA_ID"
        value = self.whole(name)
        if value is not None and chosen is not Format.AVRO:
            raise StatementError(
                f"{name} is only for formats with schemas in the registry, unlike {chosen.value}.",
                self.where(name),
                remedy="Use AVRO.",
            )
        return value

    def _schema_name(self, part: str, chosen: Format) -> str | None:
        names = [f"{part.upper()}_SCHEMA_FULL_NAME"]
        if part == "value":
            names.append("VALUE_AVRO_SCHEMA_FULL_NAME")
        given = [name for name in names if name in self.given]
        if not given:
            return None
        if len(given) > 1:
            raise StatementError(f"{given[0]} and {given[1]} are the same property.", self.where(given[1]))
        if chosen is not Format.AVRO:
            raise StatementError(f"{given[0]} is only for AVRO, not {chosen.value}.", self.where(given[0]))
        return self.filled(given[0])

    # Topics, times, windows.

    def retention(self, *, is_compacted: bool, window_ms: int | None = None) -> int | None:
        """The longer of RETENTION_MS and the retention of the window. Compacted topics keep their records."""
        given = self.whole("RETENTION_MS", least=-1)
        if given is not None and is_compacted:
            raise StatementError(
                "RETENTION_MS is only for streams and windowed tables: other tables keep a row for each key.",
                self.where("RETENTION_MS"),
            )
        return max((each for each in (given, window_ms) if each is not None), default=None)

    def timestamp(self, columns: tuple[Column, ...]) -> TimestampColumn | None:
        name = self.filled("TIMESTAMP")
        form = self.filled("TIMESTAMP_FORMAT")
        if name is None:
            if form is not None:
                raise StatementError(
                    "TIMESTAMP_FORMAT needs TIMESTAMP, which names the column.",
                    self.where("TIMESTAMP_FORMAT"),
                )
            return None
        where = self.where("TIMESTAMP")
        wanted = column_name(name)
        column = next((each for each in columns if each.name == wanted), None)
        if column is None:
            names = [each.name for each in columns]
            raise StatementError(
                f"TIMESTAMP names the column {wanted}, which does not exist.",
                where,
                remedy=did_you_mean(wanted, names).strip() or f"There are {', '.join(names)}.",
            )
        if column.type is VARCHAR:
            if form is None:
                raise StatementError(
                    f"{wanted} is VARCHAR, so TIMESTAMP_FORMAT must give the format of its times.", where
                )
            self._check_format_of_times(form)
        elif form is not None:
            raise StatementError(
                f"TIMESTAMP_FORMAT is only for VARCHAR, but {wanted} is {column.type}.",
                self.where("TIMESTAMP_FORMAT"),
            )
        elif column.type not in (BIGINT, TIMESTAMP):
            raise StatementError(
                f"{wanted} is {column.type}, but a record's time must be BIGINT, TIMESTAMP or VARCHAR.", where
            )
        return TimestampColumn(name=wanted, format=form)

    def _check_format_of_times(self, form: str) -> None:
        reason = why_unreadable(form)
        if reason is not None:
            raise UnsupportedError(
                f"TIMESTAMP_FORMAT {form!r} {reason}.",
                self.where("TIMESTAMP_FORMAT"),
                remedy="For example: 'yyyy-MM-dd HH:mm:ss'.",
            )

    def window(self) -> KeyWindow | None:
        name = self.text("WINDOW_TYPE")
        size = self.text("WINDOW_SIZE")
        kinds = WindowKind.__members__
        if name is None:
            if size is not None:
                raise StatementError("WINDOW_SIZE needs WINDOW_TYPE.", self.where("WINDOW_SIZE"))
            return None
        if name.upper() not in kinds:
            raise StatementError(
                f"There is no window type {name}.",
                self.where("WINDOW_TYPE"),
                remedy=did_you_mean(name.upper(), kinds).strip() or f"There are {', '.join(kinds)}.",
            )
        kind = WindowKind[name.upper()]
        if kind is WindowKind.SESSION:
            if size is not None:
                raise StatementError(
                    "WINDOW_SIZE is not for sessions, which have no fixed size.", self.where("WINDOW_SIZE")
                )
            return KeyWindow(kind=kind, size_ms=None)
        if size is None:
            raise StatementError(
                f"{kind.value} windows need WINDOW_SIZE.",
                self.where("WINDOW_TYPE"),
                remedy="For example: WINDOW_SIZE='10 SECONDS'.",
            )
        return KeyWindow(kind=kind, size_ms=self._duration(size))

    def _duration(self, size: str) -> int:
        words = size.upper().split()
        unit = words[-1] if words else ""
        unit = unit if unit.endswith("S") else f"{unit}S"
        if len(words) != 2 or not words[0].isdigit() or unit not in UNIT_MILLISECONDS or int(words[0]) == 0:
            raise StatementError(
                f"WINDOW_SIZE {size} is not a duration.",
                self.where("WINDOW_SIZE"),
                remedy=did_you_mean(unit, UNIT_MILLISECONDS).strip() or "For example: '10 SECONDS'.",
            )
        return int(words[0]) * UNIT_MILLISECONDS[unit]


def _wrapped_key(chosen: Format, columns: int) -> bool | None:
    # A key of one column is that column, not a record with one field.
    return False if columns == 1 and chosen in (Format.JSON, Format.AVRO) else None


def _formats() -> str:
    return ", ".join(Format.__members__)


def column_name(text: str) -> str:
    """The name as in a statement: in upper case, unless it is in back-quotes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1]
    return text.upper()
