"""The columns of a table in which a sink stores keys and headers. Values."""

from __future__ import annotations

from typing import Final

from headrace.lake.types import Array, Field, Simple, Struct

KEY: Final = "_KEY"
HEADERS: Final = "_HEADERS"
HEADERS_TYPE: Final = Array(
    element=Struct(
        fields=(Field(name="key", type=Simple.STRING), Field(name="value", type=Simple.BINARY)),
    )
)
