"""What schemas of all types have in common: a text, references to others, and an identity.

Invariant: schemas of one type with equal identities and references are the same schema, and get one id. Never
reads a text: each type has a folder of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from headrace.core.errors import HeadraceError

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
# In the order in which Confluent's registry lists them.
SCHEMA_TYPES: Final = (JSON, PROTOBUF, AVRO)

Content_co = TypeVar("Content_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Reference:
    """Another schema that a schema uses. `name` is what it calls it: a full name, a URI or a file."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Referenced:
    """The schema behind a reference."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Generic[Content_co]):
    """A valid schema. `content` is what its type makes of it."""

    schema_type: str
    text: str
    references: tuple[Reference, ...]
    identity: str
    content: Content_co = field(compare=False, repr=False)
    # With what its references define written out. Empty without references, and where that cannot be done.
    inlined: str = field(default="", compare=False, repr=False)
    inlined_identity: str = field(default="", compare=False, repr=False)


def invalid_schema(schema_type: str, reason: str) -> HeadraceError:
    names = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}
    return HeadraceError(
        "invalid_schema",
        f"The schema is not valid {names.get(schema_type, schema_type)}: {reason[:_LONGEST_REASON]}.",
        remedy="Correct the schema and register it again.",
    )


_LONGEST_REASON: Final = 2000
