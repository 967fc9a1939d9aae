"""Finds what the names of types in a file mean, by Protobuf's rule: the innermost scope first.

A name with a dot in front is complete. The types of a file are its own, those of what it imports, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.registry.protobuf.known_files import KNOWN_FILES
from headrace.registry.protobuf.model import SCALARS, Enum, File, Message, ProtobufError


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A message or an enum. Of the files that everybody has, only the name and the sort are known."""

    full_name: str
    package: str
    is_enum: bool
    message: Message | None = None
    # Which file defines it; empty for the schema's own.
    source: str = ""

    @property
    def local_name(self) -> str:
        return self.full_name.removeprefix(f"{self.package}.") if self.package else self.full_name


class Names:
    """The types that a file can name. `others` are the files of references, by the name to import them."""

    def __init__(self, file: File, others: Mapping[str, File]) -> None:
        self._types: dict[str, Type] = {}
        for name, other in others.items():
            self._define(other, name)
        seen: set[str] = set()
        ahead = list(file.all_imports)
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in others:
                ahead += others[name].all_imports
            elif name not in KNOWN_FILES:
                raise ProtobufError(f'import "{name}" leads nowhere: no reference has that name')
            else:
                for full, is_enum in KNOWN_FILES[name].items():
                    package = ".".join(part for part in full.split(".") if part.islower())
                    kind = Type(full_name=full, package=package, is_enum=is_enum, source=name)
                    self._types.setdefault(full, kind)
        self._define(file, "")

    def find(self, name: str, scope: str) -> Type:
        """Raises ProtobufError."""
        if name.startswith("."):
            found = self._types.get(name[1:])
        else:
            found = None
            while found is None:
                found = self._types.get(f"{scope}.{name}" if scope else name)
                if not scope:
                    break
                scope = scope.rpartition(".")[0]
        if found is None:
            raise ProtobufError(f'the type "{name[:200]}" is not known')
        return found

    def is_scalar(self, name: str) -> bool:
        return name in SCALARS

    def _define(self, file: File, source: str) -> None:
        for full, what in types_of(file):
            before = self._types.get(full)
            if before is not None and before.source == source:
                raise ProtobufError(f'"{full}" is defined twice')
            is_enum = isinstance(what, Enum)
            self._types[full] = Type(
                full_name=full,
                package=file.package,
                is_enum=is_enum,
                message=None if isinstance(what, Enum) else what,
                source=source,
            )


def types_of(file: File) -> Iterator[tuple[str, Message | Enum]]:
    """All messages and enums of a file, with their full names."""
    ahead: list[tuple[str, Message | Enum]] = []
    prefix = f"{file.package}." if file.package else ""
    top: list[Message | Enum] = [*file.messages, *file.enums]
    ahead += [(prefix + each.name, each) for each in reversed(top)]
    while ahead:
        full, what = ahead.pop()
        yield full, what
        if isinstance(what, Message):
            inner: list[Message | Enum] = [*what.messages, *what.enums]
            ahead += [(f"{full}.{each.name}", each) for each in reversed(inner)]
