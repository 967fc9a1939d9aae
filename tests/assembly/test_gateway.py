"""The gateway process: ready when it really answers, gone when told to, and never half there."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from hypercorn.config import Config

from headrace.assembly.processes import gateway, serving
from headrace.core.errors import HeadraceError
from headrace.http.admission import Admission
from headrace.http.query.app import QUERY_RULES
from headrace.testing import EmbeddedBroker
from tests.gateway_process import GatewayProcess, eventually, gateway_settings, run_gateway
from tests.ports import free_port

IDLE_BUDGET_BYTES = 150 * 1024 * 1024


@pytest.fixture(scope="module")
def running(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    settings = gateway_settings(
        tmp_path_factory.mktemp("gateway"), broker.bootstrap, events_topic="of_the_gateway"
    )
    with run_gateway(settings) as process:
        process.wait_until("ready")
        yield process


def test_it_is_ready_when_both_doors_answer(running: GatewayProcess) -> None:
    said = running.announcement()
    assert said is not None
    assert str(running.settings.registry_port) in said.detail
    assert str(running.settings.console_port) in said.detail
    assert httpx.get(f"{running.registry}/subjects", timeout=120).status_code == 200
    assert httpx.get(f"{running.console}/health", timeout=120).status_code == 200
    assert "Headrace" in httpx.get(f"{running.console}/", timeout=120).text


def test_what_it_logs_has_the_format_of_all_processes(running: GatewayProcess) -> None:
    lines = running.output.read_text().splitlines()
    assert any("Ready: registry on port" in line for line in lines)
    odd = [line for line in lines if not re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ \S+ ", line)]
    assert odd == []


def test_both_doors_speak_http2_without_tls(running: GatewayProcess) -> None:
    with httpx.Client(http1=False, http2=True, timeout=120) as client:
        for address in (f"{running.registry}/subjects", f"{running.console}/health"):
            answer = client.get(address)
            assert answer.status_code == 200
            assert answer.http_version == "HTTP/2"


def test_a_schema_that_is_registered_over_http_is_known(running: GatewayProcess) -> None:
    schema = {"schema": '{"type": "record", "name": "R", "fields": [{"name": "A", "type": "string"}]}'}
    answer = httpx.post(
        f"{running.registry}/subjects/of_the_gateway-value/versions", json=schema, timeout=120
    )
    assert answer.status_code == 200, answer.text
    known = httpx.get(f"{running.registry}/schemas/ids/{answer.json()['id']}", timeout=120).json()
    assert '"A"' in known["schema"]
    assert "of_the_gateway-value" in httpx.get(f"{running.registry}/subjects", timeout=120).json()


def test_it_stays_within_its_memory_budget(running: GatewayProcess) -> None:
    for path in ("/", "/console/topics", "/console/sql", "/flow", "/topics"):
        assert httpx.get(f"{running.console}{path}", timeout=120).status_code == 200
    used = psutil.Process(running.process.pid).memory_info().rss
    assert used < IDLE_BUDGET_BYTES, f"{used / 1024**2:.0f} MB"


def test_it_ends_at_once_when_told_to_although_a_page_is_open(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with run_gateway(gateway_settings(tmp_path, broker.bootstrap)) as process:
        process.wait_until("ready")
        with (
            httpx.stream("GET", f"{process.console}/console/live/topics", timeout=120) as page,
            httpx.stream("GET", f"{process.console}/flow/stream", timeout=120) as flow,
        ):
            streams = [page.iter_lines(), flow.iter_lines()]
            for lines in streams:
                assert next(lines).startswith("event: ")
            process.process.send_signal(signal.SIGTERM)
            for lines in streams:
                for _ in lines:  # the stream ends in order: one that is cut, after a while, would raise
                    pass
        assert process.process.wait(120) == 0


def test_a_port_in_use_is_named_and_the_whole_process_ends(broker: EmbeddedBroker, tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, broker.bootstrap)
    with socket.socket() as holder:
        holder.bind((settings.host, settings.console_port))
        holder.listen()
        with run_gateway(settings) as process:
            said = process.wait_until("failed")
            assert process.process.wait(120) != 0
    assert f"Port {settings.console_port} (setting `console_port`) is in use" in said.detail


def test_told_to_stop_while_it_waits_for_the_log_it_stops(tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, f"127.0.0.1:{free_port()}")
    with run_gateway(settings) as process:
        eventually(
            lambda: (said := process.announcement()) is not None and "waiting for the log" in said.detail,
            "the gateway waits for the log",
        )
        assert process.stop() == 0


def test_its_patience_with_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LOG_PATIENCE_SECONDS", 0.5)
    bootstrap = f"127.0.0.1:{free_port()}"
    with pytest.raises(HeadraceError, match="could not serve requests") as failure:
        gateway.run(gateway_settings(tmp_path, bootstrap))
    assert failure.value.code == "log_unavailable"
    assert bootstrap in failure.value.message


def test_a_server_that_ends_by_itself_takes_the_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def serve(_: object, config: Config, *, shutdown_trigger: Callable[[], Awaitable[object]]) -> None:
        name = config.errorlog.name.rpartition(".")[2]
        if name == "console":
            await shutdown_trigger()
        ended.append(name)

    monkeypatch.setattr(serving, "serve", serve)
    settings = gateway_settings(tmp_path, "nowhere:1")
    doors = tuple(
        serving.Door(
            name=name,
            application=name,
            rules=QUERY_RULES,
            host=settings.host,
            port=port,
            setting="",
            probe="/",
        )
        for name, port in (("registry", settings.registry_port), ("console", settings.console_port))
    )

    async def scenario() -> None:
        async def end_streams() -> None:
            ended.append("streams")

        with pytest.raises(HeadraceError, match="The registry server exited unexpectedly"):
            await serving.serve_all(
                doors,
                asyncio.Event(),
                end_streams,
                admission=Admission.of(settings),
                say_ready=lambda _: None,
            )

    asyncio.run(asyncio.wait_for(scenario(), 120))
    assert sorted(ended) == ["console", "registry", "streams"]
