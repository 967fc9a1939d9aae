"""The list of APIs is what the folder holds, what Kafka advertises, and what the error table covers."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker import apis
from headrace.broker.api import Api, Typed
from headrace.broker.apis import ALL
from headrace.broker.errors import ApiError, kafka_code
from headrace.log import errors as log_errors
from headrace.log.errors import LogError
from headrace.wire import errors as wire_errors
from headrace.wire.messages import of_version

FOLDER = Path(apis.__file__).parent
# As `kafka-broker-api-versions` of Apache Kafka 4.3.1 prints them.
KAFKA_VERSIONS = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
    80: (0, 1),
    81: (0, 0),
    83: (0, 0),
    84: (0, 0),
    85: (0, 1),
    86: (0, 0),
    87: (0, 1),
    88: (0, 0),
    89: (0, 0),
    90: (0, 1),
    91: (0, 0),
    92: (0, 0),
}


def test_every_file_of_the_folder_is_in_the_list() -> None:
    files = {path.stem for path in FOLDER.glob("api_*.py")}
    assert files == {api.module.rpartition(".")[2] for api in ALL.values()}


def test_versions_are_those_of_apache_kafka() -> None:
    assert {key: api.versions for key, api in ALL.items()}.items() <= KAFKA_VERSIONS.items()


@pytest.mark.parametrize("api", ALL.values(), ids=lambda api: api.name)
def test_a_file_says_what_it_is(api: Api) -> None:
    module = import_module(api.module)
    text = module.__doc__ or ""
    assert text.startswith(f"{api.name} (key {api.key}), version")
    assert "Behaviour: " in text
    assert "Version notes: " in text or api.versions[0] == api.versions[1]


@pytest.mark.parametrize("api", ALL.values(), ids=lambda api: api.name)
def test_a_handlers_messages_are_the_newest_and_have_the_fields_of_all_versions(api: Api) -> None:
    """A request is read into its class, a reply is written from it: in either something would be missing."""
    handler = api.handler()
    if not isinstance(handler, Typed):
        return
    messages = handler.messages
    for message, kind in ((messages.request, "Request"), (messages.reply, "Response")):
        assert message.__name__ == f"{api.name}{kind}"
        assert message.__version__ == api.versions[1]
        for version in range(api.versions[0], api.versions[1] + 1):
            assert list(missing_fields(of_version(message, version), message)) == []


def missing_fields(old: type, new: type) -> Iterator[str]:
    """Fields of one class that another has not, also in the structures inside."""
    hints = typing.get_type_hints(new)
    for name, hint in typing.get_type_hints(old).items():
        if name.startswith("__"):
            continue
        if name not in hints:
            yield f"{old.__name__}.{name}"
        elif (struct := struct_in(hint)) is not None:
            other = struct_in(hints[name])
            assert other is not None
            yield from missing_fields(struct, other)


def struct_in(hint: Any) -> type | None:
    if dataclasses.is_dataclass(hint):
        return typing.cast("type", hint)
    return next((found for each in typing.get_args(hint) if (found := struct_in(each)) is not None), None)


@pytest.mark.parametrize(
    "error",
    [
        error
        for module in (log_errors, wire_errors)
        for _name, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, LogError | wire_errors.CorruptBatchError) and not error.__subclasses__()
    ],
)
def test_every_error_of_the_log_has_a_code(error: type[Exception]) -> None:
    made = error.__new__(error)
    assert kafka_code(made) != ErrorCode.none


def test_an_error_without_a_code_is_a_bug() -> None:
    with pytest.raises(KeyError, match="ValueError"):
        kafka_code(ValueError("?"))
    assert kafka_code(ApiError(ErrorCode.invalid_config)) == ErrorCode.invalid_config
