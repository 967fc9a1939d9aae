"""Plugins: what a kind of connector is. A further connector is one file that makes a `Plugin`.

A plugin has the names by which configurations know its class, its settings, and a factory of tasks:

    def my_sink() -> Plugin:
        return Plugin(
            class_name="com.example.MySinkConnector",  # also known as MySinkConnector and MySink
            kind="sink",
            version="1.0",
            settings=(Definition(name="url", kind="STRING", documentation="Where to send records."),),
            new_task=MySinkTask,
        )

and is listed where the worker is put together (`connectors/builtin.py` has our own).

**Tasks** belong to one thread, which calls `start` once, then `poll` or `put` again and again, then `stop`.
`poll` and `put` should return within about a second, or wait with `context.wait`, so that a stop is quick; a
task that does not return is abandoned after the graceful timeout, and what it gives afterwards is dropped.
Anything that a task raises makes it FAILED, with the traceback as its trace; a RetriableError from `poll` or
`put` is tried again instead.

**Where it runs.** A plugin with `runs_in="worker"` is run by the Connect process (`worker/`). A plugin with
`runs_in="pipeline"` has no `new_task`: the worker validates and stores its configuration, target state, task
configurations and restart requests in `_connect_configs`, and starts nothing. The process that runs it
follows that topic (`state/configs.py`, `ConfigLog`), looks for connectors whose plugin runs there, and writes
what becomes of them to `_connect_status` (`state/statuses.py`, `StatusLog`); the REST API tells what stands
there, UNASSIGNED until something does. Rules for that process:

1. What it runs is a function of `ConnectorWish`: run while `target` is STARTED, hold while PAUSED, release
   everything while STOPPED or after the connector is gone. `config_version` changes with each configuration
   that was written, `restart.version` with each request to restart.
2. It writes the connector's status and one for each task (RUNNING, PAUSED, STOPPED, FAILED with the trace),
   whenever it changes; for STOPPED, the tasks' statuses are removed. After a deletion it writes nothing: the
   worker removes the statuses when it deletes the connector.
3. Positions of a sink are shown from the consumer group `connect-<name>` if it commits there. They can be
   changed over REST only if the plugin sets `offsets_in_group`.

Settings: `refuses_unknown` makes validation refuse a setting that no definition names; Kafka's own connectors
ignore such settings. `check` may add errors that need several settings or the outside world; it may block for
a moment, and must not change anything. It is asked about configurations whose settings are right one by one;
with `checks_all` about all others, too, so that every error is in one answer. `dynamic_prefixes` are
beginnings of settings that only `check` knows (`transforms.`). Without `takes_transforms`, `transforms` and
`predicates` are refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from headrace.connect.converters import CONVERTERS
from headrace.connect.data import SinkRecord, SourceRecord
from headrace.connect.definitions import Definition

Config = Mapping[str, str]
# Errors by the name of the setting that they belong to.
Errors = Mapping[str, Sequence[str]]


class TaskContext(Protocol):
    """What a task may ask of the worker."""

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the task has to stop; whether it has to."""

    def source_offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Where a source has to go on in one of its partitions; None at the beginning."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Send a record that a sink cannot take to the dead letters. Raises if errors are not tolerated."""


class SourceTask(Protocol):
    def start(self, config: Config, context: TaskContext) -> None: ...

    def poll(self) -> Sequence[SourceRecord]:
        """The next records; none if there are none at the moment."""

    def commit(self) -> None:
        """The offsets of everything polled before are durable."""

    def stop(self) -> None:
        """Also called after a failed start."""


class SinkTask(Protocol):
    def start(self, config: Config, context: TaskContext) -> None: ...

    def put(self, records: Sequence[SinkRecord]) -> None: ...

    def flush(self) -> None:
        """Make durable what was put: afterwards its offsets are committed."""

    def stop(self) -> None:
        """Also called after a failed start."""


def one_task(config: Config, _: int) -> list[Config]:
    """The task configurations of a connector that cannot share its work."""
    return [config]


def tasks_alike(config: Config, most: int) -> list[Config]:
    """The task configurations of a sink: its tasks share the partitions as members of one group."""
    return [config] * most


def _nothing(_: Config) -> Errors:
    return {}


def _any_offset(_partition: Mapping[str, Any], _offset: Mapping[str, Any] | None) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A kind of connector; see the module's text."""

    class_name: str
    kind: Literal["source", "sink"]
    version: str
    settings: tuple[Definition, ...]
    aliases: tuple[str, ...] = ()
    runs_in: Literal["worker", "pipeline"] = "worker"
    new_task: Callable[[], SourceTask] | Callable[[], SinkTask] | None = None
    # Configuration and `tasks.max` to the configurations of the tasks; it may make fewer.
    task_configs: Callable[[Config, int], Sequence[Config]] = one_task
    task_class: str = ""
    check: Callable[[Config], Errors] = _nothing
    checks_all: bool = False
    refuses_unknown: bool = False
    takes_transforms: bool = False
    dynamic_prefixes: tuple[str, ...] = ()
    converters: tuple[str, ...] = tuple(CONVERTERS)
    # Converter settings for connectors that name none; before those of the worker.
    default_converters: Config = field(default_factory=dict)
    # Says what is wrong with a source offset that somebody wants to set; empty if nothing is.
    check_offset: Callable[[Mapping[str, Any], Mapping[str, Any] | None], str] = _any_offset
    # Whether a sink keeps its positions as offsets of its consumer group.
    offsets_in_group: bool = True

    @property
    def names(self) -> frozenset[str]:
        """All names that mean this plugin."""
        return names_of(self.class_name) | set(self.aliases)


def names_of(class_name: str) -> frozenset[str]:
    """The names of a class: in full, without package, and without `Connector`."""
    simple = class_name.rpartition(".")[2]
    return frozenset({class_name, simple, simple.removesuffix("Connector")})


SHOWN_KINDS: Final = ("sink", "source")


class Plugins:
    """The plugins of a worker, in the order of their names."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = tuple(
            sorted(plugins, key=lambda plugin: (SHOWN_KINDS.index(plugin.kind), plugin.class_name))
        )
        self._by_name = {name: plugin for plugin in self._plugins for name in plugin.names}

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._plugins)

    def find(self, name: str) -> Plugin | None:
        return self._by_name.get(name)

    def of(self, config: Mapping[str, str | None]) -> Plugin | None:
        """The plugin that a connector's configuration names."""
        return self._by_name.get(config.get("connector.class") or "")
