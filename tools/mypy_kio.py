"""Tells mypy that `kio`'s numbers, strings and times are Python's plain ones.

`kio` annotates a field of 32 bits as `i32`, a subclass of int that has no instances of its own: at run time
every int in the range counts as one. Taken literally, these names would demand a conversion around each
number of each reply, which does nothing and costs time. mypy still checks names and kinds of fields; the
range is checked when a message is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import Type

_PRIMITIVE: Final = {
    **dict.fromkeys(("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "uvarint"), "builtins.int"),
    "f64": "builtins.float",
    "Records": "builtins.bytes",
    "i32Timedelta": "datetime.timedelta",
    "i64Timedelta": "datetime.timedelta",
    "TZAware": "datetime.datetime",
}
_NAMED: Final = {
    "BrokerId": "builtins.int",
    "ProducerId": "builtins.int",
    "GroupId": "builtins.str",
    "TopicName": "builtins.str",
    "TransactionalId": "builtins.str",
}
_PLAIN: Final = {
    **{f"kio.static.primitive.{name}": plain for name, plain in _PRIMITIVE.items()},
    **{f"kio.schema.types.{name}": plain for name, plain in _NAMED.items()},
}


class PlainKioTypes(Plugin):
    """Reads an annotation with one of these names as the plain type."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        plain = _PLAIN.get(fullname)
        return None if plain is None else lambda context: context.api.named_type(plain, [])


def plugin(_version: str) -> type[Plugin]:
    """What mypy calls."""
    return PlainKioTypes
