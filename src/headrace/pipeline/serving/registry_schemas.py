"""A registry in the same process, for the statement service: a missing schema is None, not an error."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.registry.registry import Registry


class RegistrySchemas:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def register(self, subject: str, schema: str, /) -> int:
        return self._registry.register(subject, schema)

    def schema_by_id(self, schema_id: int, /) -> str | None:
        try:
            return self._registry.schema_by_id(schema_id)
        except HeadraceError as error:
            if error.code != "schema_not_found":
                raise
            return None

    def schemas_of(self, subject: str, /) -> dict[int, str]:
        try:
            versions = self._registry.versions(subject)
        except HeadraceError as error:
            if error.code != "subject_not_found":
                raise
            return {}
        found = [self._registry.version(subject, version) for version in versions]
        return {record.id: record.schema for record in found}

    def why_not(self, subject: str, schema: str, /) -> str | None:
        if self._is_registered(subject, schema):
            return None
        found = self._registry.incompatibility(subject, schema)
        if found is None:
            return None
        return (
            f"version {found.version}, under its compatibility level {found.level.value}: "
            f"{', '.join(found.reasons)}."
        )

    def _is_registered(self, subject: str, schema: str) -> bool:
        try:
            self._registry.lookup(subject, schema)
        except HeadraceError as error:
            if error.code not in {"subject_not_found", "schema_not_found"}:
                raise
            return False
        return True
