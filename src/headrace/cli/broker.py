"""`headrace broker`: only the embedded broker, in the foreground, until Ctrl-C or SIGTERM.

Its flags are a table from which both the typer command and a fast path around typer derive: a broker should
accept records half a second after it starts, and importing typer alone would take a fifth of that.
Invariants: the fast path handles only what it fully understands and leaves everything else (help, mistakes)
to typer; standard output has one line, `ready HOST:PORT`, once the broker is serving. Uses flags only: the
environment and `headrace.toml` belong to the platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.server import BrokerServer
    from headrace.broker.settings import BrokerSettings

FSYNC: Final = ("os", "interval", "always")
HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFlag:
    """One flag; a repeatable one gives a list."""

    name: str
    kind: type
    default: Any
    help: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


FLAGS: Final = (
    BrokerFlag(
        name="port",
        kind=int,
        default=9092,
        minimum=0,
        maximum=HIGHEST_PORT,
        help="Port to listen on; 0 picks a free one.",
    ),
    BrokerFlag(
        name="data_dir",
        kind=Path,
        default=Path("headrace-data/broker"),
        help="Folder for the logs; `headrace up` keeps its own in `broker` in its data folder.",
    ),
    BrokerFlag(name="host", kind=str, default="127.0.0.1", help="Address to listen on."),
    BrokerFlag(
        name="advertised_host",
        kind=str,
        default="",
        help="Name or address given to clients; default: --host, or this machine's name for all addresses.",
    ),
    BrokerFlag(
        name="fsync",
        kind=str,
        default="os",
        choices=FSYNC,
        help="When records are synced to disk: `os` leaves it to the operating system, `interval` syncs "
        "periodically, `always` before each acknowledgement.",
    ),
    BrokerFlag(
        name="fsync_interval_ms",
        kind=int,
        default=1000,
        minimum=1,
        help="How long a record may remain unsynced with --fsync interval.",
    ),
    BrokerFlag(name="node_id", kind=int, default=1, minimum=0, help="Node id of this broker."),
    BrokerFlag(
        name="set",
        kind=str,
        default=(),
        repeated=True,
        help="A broker config by Kafka's name, as NAME=VALUE; can be repeated.",
    ),
)


def serve(values: Mapping[str, Any]) -> None:
    """Run a broker with these flag values (None: not given) until it is told to stop."""
    # Imported here, so that a mistake in the flags is reported without waiting for it.
    settings = broker_settings(values)
    from headrace.assembly.process_logging import configure_logging  # noqa: PLC0415
    from headrace.broker.lean_start import without_test_tools  # noqa: PLC0415

    with without_test_tools():
        from headrace.broker.run import run  # noqa: PLC0415

    configure_logging()
    run(settings, _say_ready)


def broker_settings(values: Mapping[str, Any]) -> BrokerSettings:
    """Raises invalid_setting."""
    from headrace.broker.settings import BrokerSettings  # noqa: PLC0415
    from headrace.core.addresses import reachable_host  # noqa: PLC0415

    given = {flag.name: _checked(flag, values.get(flag.name)) for flag in FLAGS}
    return BrokerSettings(
        data_dir=given["data_dir"].expanduser().absolute(),
        host=given["host"],
        port=given["port"],
        advertised_host=reachable_host(given["host"], given["advertised_host"]),
        node_id=given["node_id"],
        fsync=given["fsync"],
        fsync_interval_ms=given["fsync_interval_ms"],
        configs=dict(_name_and_value(text) for text in given["set"]),
    )


def parse_quickly(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The values of well-formed flags; None if typer must handle them."""
    flags = {flag.flag: flag for flag in FLAGS}
    values: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        name, equals, text = word.partition("=")
        flag = flags.get(name)
        if flag is None:
            return None
        value = text if equals else next(words, None)
        if value is None or (flag.name in values and not flag.repeated):
            return None
        try:
            converted = flag.kind(value)
        except ValueError:
            return None
        if flag.repeated:
            values.setdefault(flag.name, []).append(converted)
        else:
            values[flag.name] = converted
    return values


def _checked(flag: BrokerFlag, value: Any) -> Any:
    if value is None:
        return flag.default
    wrong = ""
    if flag.choices and value not in flag.choices:
        wrong = "it must be one of " + ", ".join(f"`{choice}`" for choice in flag.choices)
    elif flag.minimum is not None and value < flag.minimum:
        wrong = f"it must be at least {flag.minimum}"
    elif flag.maximum is not None and value > flag.maximum:
        wrong = f"it must be at most {flag.maximum}"
    if wrong:
        raise HeadraceError("invalid_setting", f"Flag {flag.flag} = {value!r} is not valid: {wrong}.")
    return value


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise HeadraceError(
            "invalid_setting",
            f"Flag --set = {text!r} is not NAME=VALUE.",
            remedy="Write it like --set log.retention.ms=86400000.",
        )
    return name.strip(), value.strip()


def _say_ready(server: BrokerServer) -> None:
    from headrace.core.addresses import bracketed  # noqa: PLC0415

    print(f"ready {bracketed(server.broker.host)}:{server.port}", flush=True)
