"""The pipeline's client of the schema registry, with Confluent's HTTP API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from headrace.core.errors import HeadraceError

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryClient:
    """A small client; every failure is a HeadraceError that names the registry's address."""

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.Client(
            timeout=timeout_seconds, headers={"Content-Type": _CONTENT_TYPE}, trust_env=False
        )

    def register(self, subject: str, schema: str) -> int:
        """Id of `schema` under `subject`; registering the same schema again gives the same id.

        Raises incompatible_schema if the subject's level does not allow it.
        """
        answer = self._request("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
        return int(answer["id"])

    def schema_by_id(self, schema_id: int) -> str | None:
        """The schema with that id, or None if the registry has none."""
        answer = self._request("GET", f"/schemas/ids/{schema_id}", None)
        return str(answer["schema"]) if answer else None

    def schemas_of(self, subject: str) -> dict[int, str]:
        """All schemas ever registered under `subject`, by id."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        versions = self._request("GET", path, None) or []
        found = [self._request("GET", f"{path}/{version}", None) for version in versions]
        return {int(entry["id"]): str(entry["schema"]) for entry in found if entry}

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject that are there, in order; empty if there is no such subject."""
        found = self._request("GET", f"/subjects/{quote(subject, safe='')}/versions", None) or []
        return sorted(int(version) for version in found)

    def version(self, subject: str, version: int) -> tuple[int, str] | None:
        """Id and text of a schema in Avro; None if it is another kind, or not there."""
        found = self._request("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}", None)
        if not found or found.get("schemaType", "AVRO") != "AVRO":
            return None
        return int(found["id"]), str(found["schema"])

    def close(self) -> None:
        self._client.close()

    def _request(self, method: str, path: str, body: dict[str, str] | None) -> Any:
        try:
            response = self._client.request(method, self._url + path, json=body)
        except httpx.HTTPError as error:
            raise HeadraceError(
                "log_unavailable",
                f"The schema registry at {self._url} does not answer: {error}.",
                remedy="Check that the gateway is running (`headrace status`).",
            ) from error
        if response.status_code == HTTPStatus.NOT_FOUND and method == "GET":
            return None
        if response.status_code == HTTPStatus.CONFLICT:
            # Its message names the subject, its level and the reason.
            raise HeadraceError("incompatible_schema", _message(response))
        if response.status_code != HTTPStatus.OK:
            raise HeadraceError(
                "pipeline_failed",
                f"The schema registry answered {method} {path} with {response.status_code}: {response.text}.",
            )
        return response.json()


class Registries:
    """The registries that queries ask, each with one client."""

    def __init__(self) -> None:
        self._clients: dict[str, RegistryClient] = {}

    def at(self, url: str) -> RegistryClient:
        return self._clients.setdefault(url, RegistryClient(url))

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text
