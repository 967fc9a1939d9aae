"""The messages of every API but Produce and Fetch, read and written by `kio`.

`kio` has one class per message and version. `Messages` stands for one API at one version and hides the
difference between versions the way Kafka does: a field that this version does not have yet is left out when
a reply is made. Names are checked against the newest version, so a misspelt field is an error.

Invariants: modules of `kio` are imported when their version is first asked for (importing all of them would
take seconds and a hundred megabytes). Never looks at what a message means.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from headrace.wire.errors import MalformedRequestError
from headrace.wire.record_batch import Buffer
from headrace.wire.shape import checked

NO_THROTTLE: Final = datetime.timedelta(0)


class Messages:
    """Request and response of one API at one version."""

    def __init__(self, api: str, version: int, newest: int) -> None:
        """`api` as Kafka spells it, e.g. ListOffsets; `newest` is the version that knows all fields."""
        folder = snake_case(api)
        request = import_module(f"kio.schema.{folder}.v{version}.request")
        self.version = version
        self._response: Final = import_module(f"kio.schema.{folder}.v{version}.response")
        self._newest: Final = import_module(f"kio.schema.{folder}.v{newest}.response")
        request_class = self._request_class = getattr(request, f"{api}Request")
        self._reply_name: Final = f"{api}Response"
        self.flexible: Final[bool] = request_class.__flexible__
        self._read: Final = entity_reader(request_class)
        self._write: Final = entity_writer(getattr(self._response, self._reply_name))
        self._fields: Final[dict[str, frozenset[str] | None]] = {}

    def read(self, body: Buffer) -> Any:
        """The request. Raises MalformedRequestError."""
        whole = checked(self._request_class, bytes(body))
        try:
            request, _size = self._read(whole, 0)
        except (SerialError, ValueError, OverflowError) as error:
            raise MalformedRequestError(f"{type(error).__name__}: {error}") from error
        return request

    def write(self, reply: Any) -> bytes:
        buffer = io.BytesIO()
        self._write(buffer, reply)
        return buffer.getvalue()

    def make(self, name: str, /, **fields: Any) -> Any:
        """A value of the class `name`, without what this version does not have; None if that is all of it."""
        known = self._fields.get(name, frozenset())
        if not known and known is not None:
            known = self._fields[name] = self._known(name)
        if known is None:
            return None
        if not known.issuperset(fields):
            surplus = fields.keys() - known
            if unknown := surplus - field_names(getattr(self._newest, name)):
                raise TypeError(f"{name} has no field {', '.join(sorted(unknown))}")
            fields = {field: value for field, value in fields.items() if field in known}
        return getattr(self._response, name)(**fields)

    def reply(self, **fields: Any) -> Any:
        """The response itself; never throttled unless it says so."""
        fields.setdefault("throttle_time", NO_THROTTLE)
        if "throttle_time" not in field_names(getattr(self._newest, self._reply_name)):
            del fields["throttle_time"]
        return self.make(self._reply_name, **fields)

    def _known(self, name: str) -> frozenset[str] | None:
        if hasattr(self._response, name):
            return field_names(getattr(self._response, name))
        if not hasattr(self._newest, name):
            raise TypeError(f"{self._reply_name} has no part {name}")
        return None


@cache
def messages(api: str, version: int, newest: int) -> Messages:
    return Messages(api, version, newest)


@cache
def field_names(message: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(message))


@cache
def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def response_module(api: str, version: int) -> ModuleType:
    """For tests and clients that read replies."""
    return import_module(f"kio.schema.{snake_case(api)}.v{version}.response")
