"""What a KRaft cluster on one machine consists of, and how that is stored.

On disk, in the engine's folder:
- `cluster.json`: cluster id, number of brokers, port of each controller. Written atomically (write, then
  rename) before any broker is formatted; after a crash in between, the next start formats the rest.
- `broker-N/server.properties`: rewritten on each start. `broker-N/log/`: Kafka's own data.
  `broker-N/server.log`: its output.

Invariants: the cluster id and the set of controllers never change once written (Kafka requires this of a
fixed quorum); brokers can be added, as brokers only, but not removed, because the quorum and replicas might
go with them. A controller's port may change between two starts: it is known only from the configuration.
"""

from __future__ import annotations

import base64
import json
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.addresses import bracketed
from headrace.core.errors import HeadraceError

# Controllers listen on the loopback interface only: all brokers of this engine are on one machine, and the
# listener has no authentication.
CONTROLLER_HOST: Final = "127.0.0.1"
MOST_CONTROLLERS: Final = 3
MOST_REPLICAS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker of the cluster; `controller_port` is None if it is not also a controller."""

    node_id: int
    folder: Path
    port: int
    controller_port: int | None

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def formatted(self) -> bool:
        # Kafka's formatter writes this file last.
        return (self.folder / "log" / "meta.properties").is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that is about to be started."""

    cluster_id: str
    host: str
    advertised_host: str
    brokers: tuple[Broker, ...]
    default_partitions: int
    max_message_bytes: int

    def properties(self, broker: Broker) -> dict[str, Any]:
        """The server properties of one broker: Kafka's defaults, except where one machine needs others."""
        controllers = [each for each in self.brokers if each.controller_port is not None]
        replicas = min(MOST_REPLICAS, len(self.brokers))
        in_sync = max(1, replicas - 1)
        listeners = [f"PLAINTEXT://{bracketed(self.host)}:{broker.port}"]
        if broker.controller_port is not None:
            listeners.append(f"CONTROLLER://{CONTROLLER_HOST}:{broker.controller_port}")
        return {
            "process.roles": "broker" if broker.controller_port is None else "broker,controller",
            "node.id": broker.node_id,
            "controller.quorum.voters": ",".join(
                f"{each.node_id}@{CONTROLLER_HOST}:{each.controller_port}" for each in controllers
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": f"PLAINTEXT://{bracketed(self.advertised_host)}:{broker.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            # Relative to the broker's folder, in which the JVM runs: a comma in an absolute path would split
            # it in two.
            "log.dirs": "log",
            "num.partitions": self.default_partitions,
            "auto.create.topics.enable": "true",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "message.max.bytes": self.max_message_bytes,
            "replica.fetch.max.bytes": self.max_message_bytes,
            # A consumer started on a laptop is alone in its group: waiting for others only slows it down.
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 10,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 10,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 10,
            # Allocated at startup, 128 MiB by default; this still holds the keys of 600,000 records in one
            # pass.
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        }

    def write_properties(self, broker: Broker) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self.properties(broker).items())
        broker.folder.mkdir(parents=True, exist_ok=True)
        broker.properties_file.write_text(text, encoding="ascii")


def open_cluster(
    data_dir: Path,
    *,
    host: str,
    advertised_host: str,
    ports: tuple[int, ...],
    default_partitions: int,
    max_message_bytes: int,
) -> Cluster:
    """The cluster in the folder, or a new one; its controllers get ports that are free now."""
    file = data_dir / "cluster.json"
    wanted = len(ports)
    if file.is_file():
        content = json.loads(file.read_text(encoding="utf-8"))
        held = content["brokers"]
        if wanted < held:
            raise HeadraceError(
                "invalid_setting",
                f"{data_dir} contains a cluster of {held} brokers, but {wanted} were requested: "
                "brokers cannot be removed without their replicas.",
                remedy=f"Set brokers to {held} or more, or start with an empty data folder.",
            )
        cluster_id = content["cluster_id"]
        remembered = {int(node_id): port for node_id, port in content["controller_ports"].items()}
    else:
        cluster_id = _new_cluster_id()
        # With two controllers both would be needed for a majority, which is worse than one.
        count = MOST_CONTROLLERS if wanted >= MOST_CONTROLLERS else 1
        remembered = dict.fromkeys(range(1, count + 1), 0)
    controller_ports = _free_controller_ports(remembered, avoid=ports)
    data_dir.mkdir(parents=True, exist_ok=True)
    content = {"cluster_id": cluster_id, "brokers": wanted, "controller_ports": controller_ports}
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(file)
    brokers = tuple(
        Broker(
            node_id=node_id,
            folder=data_dir / f"broker-{node_id}",
            port=port,
            controller_port=controller_ports.get(node_id),
        )
        for node_id, port in enumerate(ports, start=1)
    )
    return Cluster(
        cluster_id=cluster_id,
        host=host,
        advertised_host=advertised_host,
        brokers=brokers,
        default_partitions=default_partitions,
        max_message_bytes=max_message_bytes,
    )


def _new_cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text


def _free_controller_ports(remembered: dict[int, int], *, avoid: tuple[int, ...]) -> dict[int, int]:
    """The stored ports if free, otherwise others; each is held until all are found, so none is used twice."""
    held: list[socket.socket] = []
    result: dict[int, int] = {}
    try:
        for node_id, port in remembered.items():
            wanted = port
            while node_id not in result:
                candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                held.append(candidate)
                candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    candidate.bind((CONTROLLER_HOST, wanted))
                except OSError:
                    wanted = 0  # taken since the last start
                    continue
                if candidate.getsockname()[1] not in avoid:
                    result[node_id] = candidate.getsockname()[1]
                wanted = 0
    finally:
        for each in held:
            each.close()
    return result
