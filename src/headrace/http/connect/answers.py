"""What Connect's routes share: the formats of answers and errors, and how requests are read.

Invariants: every answer is JSON, or empty; an error is `{"error_code": …, "message": …}`, and its code is the
HTTP status. A body that cannot be read is 400, where Kafka answers 500: the client is at fault.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Response

from headrace.connect.offset_changes import Wanted
from headrace.connect.state.configs import TARGETS, Target
from headrace.core.errors import HeadraceError
from headrace.http.admission import JSON, DoorRules, Refusal
from headrace.http.foreign_api import RefusedError, posted_object

BAD_REQUEST: Final = 400
_INITIAL_STATES: Final[dict[str, Target]] = {
    ("RUNNING" if target == "STARTED" else target): target for target in TARGETS
}


def answer(content: Any, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type=JSON)


def empty(status: int) -> Response[bytes]:
    return Response(b"", status_code=status, media_type=JSON)


def refused(code: int, message: str) -> Response[bytes]:
    return answer({"error_code": code, "message": message}, code)


def posted_config(content: Any) -> dict[str, str | None]:
    """A configuration: names and texts. As in Kafka, numbers and booleans are taken for texts."""
    if not isinstance(content, dict):
        raise RefusedError(BAD_REQUEST, "The configuration is not a JSON object.")
    return {name: _text(name, value) for name, value in content.items()}


def posted_connector(body: bytes) -> tuple[str, dict[str, str | None], Target]:
    """Name, configuration and target state of a connector to create."""
    content = posted_object(body)
    unknown = content.keys() - {"name", "config", "initial_state"}
    if unknown:
        raise RefusedError(BAD_REQUEST, f"The request has an unknown field: {sorted(unknown)[0]}.")
    if content.get("config") is None:
        raise RefusedError(BAD_REQUEST, "The request has no `config`.")
    config = posted_config(content["config"])
    name = content.get("name")
    if name is None:
        name = config.get("name") or ""
    if not isinstance(name, str | int | float):
        raise RefusedError(BAD_REQUEST, "The name is not a text.")
    return str(name).strip(), config, _initial_state(content.get("initial_state"))


def posted_offsets(body: bytes) -> list[Wanted]:
    """Partitions and their offsets."""
    content = posted_object(body)
    unknown = content.keys() - {"offsets"}
    if unknown:
        raise RefusedError(BAD_REQUEST, f"The request has an unknown field: {sorted(unknown)[0]}.")
    listed = content.get("offsets") or []
    if not isinstance(listed, list):
        raise RefusedError(BAD_REQUEST, "`offsets` is not a list.")
    wanted: list[Wanted] = []
    for each in listed:
        if not isinstance(each, dict) or each.keys() - {"partition", "offset"}:
            raise RefusedError(
                BAD_REQUEST, "An entry of `offsets` has a `partition` and an `offset`, no more."
            )
        pair = (each.get("partition"), each.get("offset"))
        if any(part is not None and not isinstance(part, dict) for part in pair):
            raise RefusedError(BAD_REQUEST, "`partition` and `offset` are JSON objects, or null.")
        wanted.append(pair)
    return wanted


def is_true(value: str | None) -> bool:
    """A parameter as Java reads it: everything but `true` is false."""
    return (value or "").lower() == "true"


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise RefusedError(BAD_REQUEST, f"The value of {name} is not a text.")


def _initial_state(value: Any) -> Target:
    if value is None:
        return "STARTED"
    found = _INITIAL_STATES.get(value.upper()) if isinstance(value, str) else None
    if found is None:
        raise RefusedError(BAD_REQUEST, f"initial_state must be one of {', '.join(_INITIAL_STATES)}.")
    return found


def _refusal(error: HeadraceError) -> Refusal:
    body = msgspec.json.encode({"error_code": error.http_status, "message": str(error)})
    return Refusal(status=error.http_status, media_type=JSON, body=body)


CONNECT_RULES: Final = DoorRules(refusal=_refusal)
