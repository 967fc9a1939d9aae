"""The settings of a session: what SET changes and SHOW shows, by PostgreSQL's names.

Invariants: a setting that decides what answers mean has one value here, and any other is refused or, where
drivers set it unasked (TimeZone), answered with a warning and left as it is; a setting that has no effect
here is kept and shown as it was set. `REPORTED` settings are told to the client when they change.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.postgres.protocol.errors import (
    INVALID_PARAMETER_VALUE,
    UNDEFINED_OBJECT,
    PostgresError,
)
from headrace.query.receipts.receipt import After, receipts_of, seconds_of

SERVER_VERSION: Final = "16.9"
VERSION_NUMBER: Final = "160009"
MOST_SETTINGS: Final = 200
LONGEST_VALUE: Final = 4096

# Our own: the events that each question is to see, as receipts with commas between, and how long it waits.
AFTER: Final = "headrace.after"
AFTER_SECONDS: Final = "headrace.after_seconds"

_DEFAULTS: Final = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "default_table_access_method": "heap",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    AFTER: "",
    AFTER_SECONDS: f"{After().seconds:g}",
    "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": VERSION_NUMBER,
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
REPORTED: Final = (
    "DateStyle", "IntervalStyle", "TimeZone", "application_name", "client_encoding",
    "default_transaction_read_only", "in_hot_standby", "integer_datetimes", "is_superuser", "server_encoding",
    "server_version", "session_authorization", "standard_conforming_strings",
)  # fmt: skip
_READ_ONLY: Final = frozenset(
    {
        "in_hot_standby", "integer_datetimes", "is_superuser", "max_identifier_length", "max_index_keys",
        "server_encoding", "server_version", "server_version_num",
    }
)  # fmt: skip
# The only values of settings that decide what an answer means, in small letters.
_ACCEPTED: Final = {
    "bytea_output": re.compile("hex"),
    "client_encoding": re.compile("'?(utf-?8|unicode)'?"),
    "DateStyle": re.compile("iso(, *(mdy|dmy|ymd|us|european))?"),
    "IntervalStyle": re.compile("postgres"),
    "standard_conforming_strings": re.compile("on|true|1"),
}
_UTC: Final = frozenset({"utc", "gmt", "z", "zulu", "etc/utc", "etc/gmt", "default", "0", "uct", "etc/uct"})
_SPELLINGS: Final = {name.lower(): name for name in _DEFAULTS}
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|min|h|d)?")
_UNITS: Final = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}


class Settings:
    """The settings of one session."""

    def __init__(self, user: str) -> None:
        self._initial = {**_DEFAULTS, "session_authorization": user}
        self._values = dict(self._initial)

    @property
    def values(self) -> dict[str, str]:
        return self._values

    @property
    def by_lower_name(self) -> dict[str, str]:
        """For `current_setting` and `pg_settings`."""
        return {name.lower(): value for name, value in self._values.items()} | self._values

    @property
    def statement_timeout_seconds(self) -> float | None:
        """How long a question may take if the client has said so."""
        milliseconds = _milliseconds(self._values["statement_timeout"])
        return milliseconds / 1000 if milliseconds else None

    @property
    def after(self) -> After:
        """The events that questions are to see."""
        return After(
            receipts=receipts_of(self._values[AFTER]),
            seconds=seconds_of(self._values[AFTER_SECONDS], AFTER_SECONDS),
        )

    def keep_as_initial(self) -> None:
        """What RESET goes back to: the values of the startup message."""
        self._initial = dict(self._values)

    def set(self, name: str, value: str | None) -> str:
        """Change a setting. Returns a warning if it had no effect. None sets it back."""
        spelled = _SPELLINGS.get(name.lower(), name.lower())
        if spelled in _READ_ONLY:
            raise PostgresError("55P02", f'parameter "{spelled}" cannot be changed')
        if value is None:
            self.reset(spelled)
            return ""
        if len(value) > LONGEST_VALUE:
            raise _invalid(spelled, value)
        if spelled == "TimeZone":
            is_utc = value.strip("'\"").lower() in _UTC
            return "" if is_utc else f"times are shown in UTC here, not in {value[:60]}"
        accepted = _ACCEPTED.get(spelled)
        if accepted is not None:
            if not accepted.fullmatch(value.lower()):
                raise _invalid(spelled, value)
            return ""
        if spelled.endswith("read_only") and value.lower() in ("off", "false", "0", "no"):
            return "the lake is read-only here whatever this setting says"
        if spelled == "statement_timeout":
            _milliseconds(value)
        try:
            if spelled == AFTER:
                receipts_of(value)
            elif spelled == AFTER_SECONDS:
                seconds_of(value, spelled)
        except HeadraceError as error:
            raise PostgresError(INVALID_PARAMETER_VALUE, error.message, hint=error.remedy) from error
        if spelled not in self._values and len(self._values) >= MOST_SETTINGS:
            raise PostgresError("53400", f"a session has at most {MOST_SETTINGS} settings")
        self._values[spelled] = value
        return ""

    def reset(self, name: str) -> None:
        """One setting, or all if the name is empty."""
        if not name:
            self._values = dict(self._initial)
            return
        spelled = _SPELLINGS.get(name.lower(), name.lower())
        if spelled in self._initial:
            self._values[spelled] = self._initial[spelled]
        else:
            self._values.pop(spelled, None)

    def show(self, name: str) -> str:
        spelled = _SPELLINGS.get(name.lower(), name.lower())
        if spelled not in self._values:
            raise PostgresError(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name}"')
        return self._values[spelled]


def _milliseconds(value: str) -> float:
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise _invalid("statement_timeout", value)
    return int(match[1]) * _UNITS[match[2] or "ms"]


def _invalid(name: str, value: str) -> PostgresError:
    return PostgresError(INVALID_PARAMETER_VALUE, f'invalid value for parameter "{name}": "{value[:60]}"')
