"""Where our Connect worker answers otherwise than Apache Kafka's, and why. docs/connect.md tells users."""

from __future__ import annotations

from typing import Final

_AT_FAULT: Final = (
    "Kafka answers 500 with the text of a Java exception; we answer 400: the client is at fault"
)
_NO_TRANSFORMS: Final = "there are no transformations here"
# Requests whose answers differ, and why.
DIFFERENCES: Final[dict[str, str]] = {
    "all plugins": _NO_TRANSFORMS,
    "settings of a converter": "only connectors tell their settings",
    "validate nothing": _AT_FAULT,
    "validate errors and converters": "Kafka has no version for a converter that does not exist",
    "validate no class that exists": _AT_FAULT,
    "validate a list": _AT_FAULT,
    "create with half of JSON": _AT_FAULT,
    "create with a list": _AT_FAULT,
    "create with nothing in it": _AT_FAULT,
    "create without a body": _AT_FAULT,
    "create without a config": _AT_FAULT,
    "create with an unknown field": _AT_FAULT,
    "create with a nested value": _AT_FAULT,
    "create in no state": _AT_FAULT,
    "create with no class that exists": "the list of connectors that there are has only their names",
    "create from a form": "our text names the type that is accepted",
    "create with a slash": "Kafka creates it, and no request can reach it: its server refuses %2F",
    "alter with a list": _AT_FAULT,
    "alter an unknown field": _AT_FAULT,
    "alter to less than nothing": _AT_FAULT,
    "alter to a text": _AT_FAULT,
    "alter no file": _AT_FAULT,
    "put a list": _AT_FAULT,
    "patch with a list": _AT_FAULT,
    "patch its name": "Kafka writes a name that is not the connector's into its configuration",
    "alter the sink to less than nothing": _AT_FAULT,
    "alter the sink to no topic that exists": _AT_FAULT,
    "loggers": "the root logger is always listed",
}
