"""A port in use is found before anything starts."""

from __future__ import annotations

import dataclasses
import os
import socket

import pytest

from headrace.assembly.ports import check_ports
from headrace.assembly.process_specs import PROCESSES, ProcessSpec
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from tests.ports import free_ports


def test_free_ports_are_fine(settings: Settings) -> None:
    check_ports(settings, PROCESSES)


@pytest.mark.parametrize(
    "name",
    [
        "kafka_port",
        "ingest_port",
        "registry_port",
        "statements_port",
        "console_port",
        "query_port",
        "postgres_port",
        "connect_port",
        "connect_second_port",
    ],
)
def test_a_port_in_use_is_named_with_its_setting_and_its_user(settings: Settings, name: str) -> None:
    taken = socket.create_server(("127.0.0.1", getattr(settings, name)))
    with taken, pytest.raises(HeadraceError) as raised:
        check_ports(settings, PROCESSES)
    error = raised.value
    assert error.code == "port_in_use"
    assert f"Port {getattr(settings, name)} (setting `{name}`)" in error.message
    assert f"pid {os.getpid()}" in error.message
    assert "--" + name.replace("_", "-") in error.remedy
    assert "HEADRACE_" + name.upper() in error.remedy


def test_a_port_taken_on_all_addresses_is_taken(settings: Settings) -> None:
    taken = socket.create_server(("0.0.0.0", settings.ingest_port))
    with taken, pytest.raises(HeadraceError, match="ingest_port"):
        check_ports(settings, PROCESSES)


def test_the_ports_of_further_brokers_are_looked_at(settings: Settings) -> None:
    three = _with_three_free_ports(settings)
    third = three.kafka_port + 2
    taken = socket.create_server(("127.0.0.1", third))
    with taken, pytest.raises(HeadraceError, match=rf"Port {third} \(setting `kafka_port`\)"):
        check_ports(three, PROCESSES)


def _with_three_free_ports(settings: Settings) -> Settings:
    """Three brokers on ports in a row: a single free port may have neighbours that others use."""
    while True:
        three = dataclasses.replace(settings, brokers=3, kafka_port=free_ports(1)[0])
        try:
            check_ports(three, PROCESSES)
        except (HeadraceError, OverflowError):
            continue
        return three


def test_the_port_of_an_external_log_is_not_ours_to_look_at(settings: Settings) -> None:
    external = dataclasses.replace(settings, engine="external", bootstrap_servers="kafka.test:9092")
    with socket.create_server(("127.0.0.1", settings.kafka_port)):
        check_ports(external, PROCESSES)


def test_a_connection_of_an_earlier_run_is_no_obstacle(settings: Settings) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        # Closed by the server's side first: that side's port is the one that lingers in TIME_WAIT.
        accepted.close()
        client.recv(1)
        client.close()
    spec = ProcessSpec(name="ingest", module="", ports=("ingest_port",))
    check_ports(dataclasses.replace(settings, ingest_port=port), [spec])


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused(settings: Settings, host: str) -> None:
    with pytest.raises(HeadraceError, match="`host`") as raised:
        check_ports(dataclasses.replace(settings, host=host), PROCESSES)
    assert raised.value.code == "invalid_setting"
