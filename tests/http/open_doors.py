"""All HTTP doors of a platform, served by their processes, and the table that says which port is which."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.assembly.announcements import latest
from headrace.core.settings import Settings, to_environment
from tests.gateway_process import GatewayProcess, eventually, gateway_settings, run_gateway
from tests.ports import free_ports

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "http.md"


def _ours(content: Any, status: int) -> str:
    assert content["error"] == {403: content["error"], 415: "unsupported_media_type"}[status]
    return f"{content['message']} {content['remedy']}"


def _confluent(content: Any, status: int) -> str:
    assert set(content) == {"error_code", "message"}
    assert content["error_code"] == status
    return str(content["message"])


def _ksqldb(content: Any, status: int) -> str:
    assert (content["@type"], content["error_code"]) == ("generic_error", 100 * status)
    return str(content["message"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """`section` of docs/http.md lists its routes; `message` finds the text in an error of its API."""

    section: str
    message: Callable[[Any, int], str]
    media_type: str = "application/json"
    # Routes that take other types than JSON, as they change nothing.
    reads_text: frozenset[str] = frozenset()


# Every port that the platform listens on, by its setting: a new one belongs into one of the two tables.
DOORS: Final[dict[str, Door]] = {
    "ingest_port": Door(section="Events", message=_ours),
    "registry_port": Door(
        section="Schema registry", message=_confluent, media_type="application/vnd.schemaregistry.v1+json"
    ),
    "statements_port": Door(section="Statements", message=_ksqldb, media_type="application/vnd.ksql.v1+json"),
    "connect_port": Door(section="Connect", message=_confluent),
    "connect_second_port": Door(section="Connect", message=_confluent),
    "console_port": Door(section="Queries", message=_ours, reads_text=frozenset({"/sql"})),
    "query_port": Door(section="SQL", message=_ours, reads_text=frozenset({"/sql", "/druid/v2/sql"})),
}
NO_DOORS: Final[dict[str, str]] = {
    "kafka_port": "speaks Kafka's protocol; an HTTP request is no frame of it",
    "postgres_port": "speaks PostgreSQL's protocol; an HTTP request is no message of it",
    "spark_ui_port": "Spark's own server on the loopback, which only shows (spark.ui.killEnabled=false)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    port_setting: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.port_setting}-{self.method}-{self.path}"


def documented_routes() -> Iterator[Route]:
    """Every route of every door, as the page lists them; a test compares the page with the code."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    for setting, door in DOORS.items():
        (section,) = (each for each in sections if each.startswith(f"{door.section}, port"))
        for method, path in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`", section):
            yield Route(port_setting=setting, method=method, path=re.sub(r"\{[^}]*\}", "1", path))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDoors:
    settings: Settings
    gateway: GatewayProcess
    ingest: subprocess.Popen[bytes]
    connect: subprocess.Popen[bytes]
    query: subprocess.Popen[bytes]

    def port(self, setting: str) -> int:
        found: int = getattr(self.settings, setting)
        return found

    def url(self, setting: str) -> str:
        return f"http://127.0.0.1:{self.port(setting)}"


@contextmanager
def open_doors(data_dir: Path, bootstrap: str, **changes: Any) -> Iterator[OpenDoors]:
    """The gateway, Connect, the query process and the events API as the supervisor runs them."""
    connect_port, connect_second_port, ingest_port = free_ports(3)
    settings = dataclasses.replace(
        gateway_settings(data_dir, bootstrap, events_topic="of_the_doors"),
        ingest_port=ingest_port,
        ingest_workers=1,
        connect_port=connect_port,
        connect_second_port=connect_second_port,
        **changes,
    )
    with (
        run_gateway(settings) as gateway,
        _process(settings, "ingest") as ingest,
        _process(settings, "connect") as connect,
        _process(settings, "query") as query,
    ):
        gateway.wait_until("ready")
        for name, process in (("ingest", ingest), ("connect", connect), ("query", query)):
            eventually(
                lambda name=name: (said := latest(settings, name)) is not None and said.state == "ready",
                f"{name} is ready",
                unless=lambda process=process: process.poll() is not None,
            )
        yield OpenDoors(settings=settings, gateway=gateway, ingest=ingest, connect=connect, query=query)


@contextmanager
def _process(settings: Settings, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the platform; nothing of it is left."""
    with (settings.data_dir / f"{name}.out").open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", name],
            env={**os.environ, **to_environment(settings)},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(120)
        finally:
            process.kill()
            process.wait()
