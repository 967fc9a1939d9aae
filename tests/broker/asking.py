"""Asking one API of a broker without a network, but in bytes both ways: every version is really written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.configs import ConfigStore, static_log_config
from headrace.broker.group_commit import GroupCommit
from headrace.broker.settings import BrokerSettings
from headrace.log.folder.data_folder import DataFolder
from tests.conformance.raw_client import make


class Nobody:
    address = "test"


def open_broker(folder: Path, **settings: Any) -> Broker:
    """A broker that listens nowhere. Close its logs."""
    chosen = BrokerSettings(data_dir=folder, **settings)
    logs = DataFolder.open(folder, config_of=static_log_config(chosen))
    commit = GroupCommit("os", 1000, lambda _log: None, logs.reserving)
    return Broker(chosen, logs, ConfigStore(chosen, logs), commit)


def ask(broker: Broker, api: Api, version: int, **fields: Any) -> Any:
    """The reply, as a client reads it."""
    schema = load_request_schema(api.key, version)
    body = io.BytesIO()
    entity_writer(schema)(body, make(schema, fields))
    context = Context(version, "test", Nobody())
    written = api.handler().at(version).answer(broker, memoryview(body.getvalue()), context)
    assert isinstance(written, bytes)
    read, size = entity_reader(load_response_schema(api.key, version))(written, 0)
    assert size == len(written)
    return read
