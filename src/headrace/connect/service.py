"""Connect as a service: what the REST API asks of it, in Kafka Connect's words, behind no HTTP.

Invariants: a change is answered once the log has it on its disk and it was read back; two changes of one
process never overtake each other; errors are HeadraceErrors whose texts are Kafka's. Decides what is wanted,
never runs it: that is `worker/`, or another process for plugins that run there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from headrace.connect.common_settings import most_tasks, settings_of
from headrace.connect.definitions import Definition
from headrace.connect.plugins import Plugin
from headrace.connect.state.configs import ConnectorWish, Target
from headrace.connect.state.statuses import Status
from headrace.connect.validation import GivenConfig, Validation, validate
from headrace.connect.worker.parts import WorkerParts
from headrace.connect.worker.worker import Worker
from headrace.core.errors import HeadraceError

# Beyond the time that tasks have for stopping.
_EXTRA_SECONDS: Final = 5.0
_OF_CONVERTERS: Final = (".converter", ".converter.plugin.version")


class ConnectService:
    """All methods may be called from any thread; all may block."""

    def __init__(self, parts: WorkerParts, worker: Worker) -> None:
        self.parts = parts
        self._worker = worker
        # Held while a change is decided and written.
        self._changing = threading.Lock()

    # What there is.

    def names(self) -> list[str]:
        return list(self.parts.configs.wishes())

    def wish(self, name: str) -> ConnectorWish:
        """Raises connector_not_found."""
        found = self.parts.configs.wish(name)
        if found is None:
            raise _not_found(f"Connector {name} not found")
        return found

    def plugin_of(self, wish: ConnectorWish) -> Plugin | None:
        return self.parts.plugins.of(wish.config)

    def info(self, name: str) -> dict[str, Any]:
        return self._info(self.wish(name))

    def status(self, name: str) -> dict[str, Any]:
        wish = self.parts.configs.wish(name)
        if wish is None:
            raise _not_found(f"No status found for connector {name}")
        tasks = self._task_statuses(wish)
        return {
            "name": name,
            "connector": (self.parts.statuses.connector(name) or _UNASSIGNED).as_json(),
            "tasks": [{"id": number, **status.as_json()} for number, status in tasks.items()],
            "type": self._kind(wish),
        }

    def task_status(self, name: str, number: int) -> dict[str, Any]:
        wish = self.parts.configs.wish(name)
        found = self._task_statuses(wish).get(number) if wish is not None else None
        if found is None:
            raise _not_found(f"No status found for task {name}-{number}")
        return {"id": number, **found.as_json()}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        return [
            {"id": {"connector": name, "task": number}, "config": dict(config)}
            for number, config in enumerate(self.wish(name).tasks)
        ]

    def topics(self, name: str) -> list[str]:
        return self.parts.statuses.topics(name)

    def forget_topics(self, name: str) -> None:
        self.parts.statuses.forget_topics(name)

    # Plugins.

    def plugin_settings(self, name: str) -> tuple[Definition, ...]:
        """Those of the plugin first. Raises plugin_not_found."""
        plugin = self.parts.plugins.find(name)
        if plugin is None:
            raise HeadraceError("plugin_not_found", f"Unknown plugin {name}.")
        common = settings_of(plugin, dict(self.parts.converters))
        # A plugin does not know the worker's converters.
        own = tuple(
            replace(each, default=None) if each.name.endswith(_OF_CONVERTERS) else each
            for each in common
            if each not in plugin.settings
        )
        return (*plugin.settings, *own)

    def validate(self, name: str, config: GivenConfig) -> Validation:
        """Raises connector_invalid if the configuration is not one of this plugin."""
        given = config.get("connector.class")
        if not given:
            raise _invalid(f"Connector config {_shown(config)} contains no connector type")
        plugin = self.parts.plugins.find(name)
        if self.parts.plugins.find(given) is None and given == name:
            raise self._no_class(given)
        if plugin is None or self.parts.plugins.find(given) is not plugin:
            raise _invalid(f"Included connector type {given} does not match request type {name}")
        return validate(plugin, config, dict(self.parts.converters))

    # Changes.

    def create(self, name: str, config: GivenConfig, target: Target) -> dict[str, Any]:
        """Raises connector_exists, connector_invalid, log_unavailable."""
        checked = self._checked(name, config)
        with self._changing:
            if self.parts.configs.wish(name) is not None:
                raise HeadraceError("connector_exists", f"Connector {name} already exists")
            return self._put(name, checked, target)

    def put_config(self, name: str, config: GivenConfig) -> tuple[bool, dict[str, Any]]:
        """Whether the connector is new, and its description."""
        checked = self._checked(name, config)
        with self._changing:
            is_new = self.parts.configs.wish(name) is None
            return is_new, self._put(name, checked, "STARTED" if is_new else None)

    def patch_config(self, name: str, changes: GivenConfig) -> dict[str, Any]:
        """A null removes a setting. Raises connector_not_found as well."""
        with self._changing:
            patched = {**self.wish(name).config, **changes}
            config = {key: value for key, value in patched.items() if value is not None}
            return self._put(name, self._checked(name, config), None)

    def delete(self, name: str) -> None:
        """Returns when its tasks have stopped, or had their time for it and are abandoned."""
        with self._changing:
            self.wish(name)
            self.parts.configs.delete(name)
        # Others need not wait for tasks that take their time.
        self._worker.wait_gone(name, self.parts.graceful_seconds + _EXTRA_SECONDS)
        with self._changing:
            if self.parts.configs.wish(name) is None:
                self.parts.statuses.remove(name)

    def set_target(self, name: str, target: Target) -> None:
        with self._changing:
            wish = self.parts.configs.wish(name)
            if wish is None:
                raise _not_found(f"Unknown connector {name}")
            self.parts.configs.set_target(name, target)
            self._plan_elsewhere(name)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
        """What is going to be restarted, as a status."""
        with self._changing:
            if self.parts.configs.wish(name) is None:
                raise _not_found(f"Unknown connector: {name}")
            status = self.status(name)
            self.parts.configs.request_restart(name, include_tasks=include_tasks, only_failed=only_failed)
        restarted = [status["connector"], *(status["tasks"] if include_tasks else ())]
        for each in restarted:
            if not only_failed or each["state"] == "FAILED":
                each["state"] = "RESTARTING"
        return status

    def restart_task(self, name: str, number: int) -> None:
        wish = self.parts.configs.wish(name)
        if wish is None:
            raise _not_found(f"Unknown connector: {name}")
        if not 0 <= number < len(wish.tasks):
            raise _not_found(f"Unknown task: {name}-{number}")
        plugin = self.plugin_of(wish)
        if plugin is not None and plugin.runs_in != "worker":
            self.parts.configs.request_restart(name, include_tasks=True, only_failed=False)
        else:
            self._worker.restart_task(name, number)

    def wait_stopped(self, wish: ConnectorWish) -> bool:
        """Wait for a connector that was told to stop; False if it has not in time."""
        plugin = self.plugin_of(wish)
        if plugin is not None and plugin.runs_in != "worker":
            status = self.parts.statuses.connector(wish.name)
            return status is not None and status.state == "STOPPED"
        return self._worker.wait_done(wish, self.parts.graceful_seconds + _EXTRA_SECONDS)

    @contextmanager
    def unchanged(self, wish: ConnectorWish) -> Iterator[None]:
        """No connector is changed inside. Raises connector_busy if somebody has changed this one meanwhile,
        connector_not_found.
        """
        with self._changing:
            now = self.wish(wish.name)
            if (now.config_version, now.target) != (wish.config_version, wish.target):
                raise HeadraceError(
                    "connector_busy", f"The connector {wish.name} was changed meanwhile; try again."
                )
            yield

    def trouble(self) -> str:
        """Why changes are not noticed any more; empty if they are."""
        parts = self.parts
        are_alive = {
            "configurations": parts.configs.is_alive,
            "statuses": parts.statuses.is_alive,
            "offsets": parts.offsets.is_alive,
        }
        dead = [name for name, is_alive in are_alive.items() if not is_alive]
        if dead:
            return f"The worker does not read the log of {' and '.join(dead)} any more."
        return "" if self._worker.is_alive else "The worker does not look after connectors any more."

    def _checked(self, name: str, config: GivenConfig) -> dict[str, str]:
        """The configuration with its name, if nothing is wrong with it. Raises connector_invalid."""
        given = config.get("name")
        if given is not None and given != name:
            raise _invalid(
                f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
            )
        named: dict[str, str | None] = {**config, "name": name}
        for text in (*named, *named.values()):
            if text is not None and not _is_text(text):
                raise _invalid("The configuration has a character that is not one of Unicode's")
        class_name = named.get("connector.class")
        if not class_name:
            raise _invalid(f"Connector config {_shown(named)} contains no connector type")
        plugin = self.parts.plugins.find(class_name)
        if plugin is None:
            raise self._no_class(class_name)
        validate(plugin, named, dict(self.parts.converters)).raise_if_wrong()
        return {key: value for key, value in named.items() if value is not None}

    def _put(self, name: str, config: Mapping[str, str], target: Target | None) -> dict[str, Any]:
        before = self.parts.configs.wish(name)
        self.parts.configs.put(name, config, target)
        self._plan_elsewhere(name)
        # As in Kafka: the tasks are those from before the change.
        return {**self._info(self.wish(name)), "tasks": _task_ids(before)}

    def _plan_elsewhere(self, name: str) -> None:
        """Write the tasks of a connector that another process runs; the worker's own keepers do it later."""
        wish = self.wish(name)
        plugin = self.plugin_of(wish)
        if plugin is None or plugin.runs_in == "worker":
            return
        most = most_tasks(wish.config)
        tasks = list(plugin.task_configs(wish.config, most)) if wish.target != "STOPPED" else []
        wanted = [{**config, "task.class": plugin.task_class} for config in tasks]
        if list(wish.tasks) != wanted:
            self.parts.configs.set_tasks(name, wanted)

    def _info(self, wish: ConnectorWish) -> dict[str, Any]:
        return {
            "name": wish.name,
            "config": dict(wish.config),
            "tasks": _task_ids(wish),
            "type": self._kind(wish),
        }

    def _kind(self, wish: ConnectorWish) -> str:
        plugin = self.plugin_of(wish)
        return plugin.kind if plugin is not None else "unknown"

    def _task_statuses(self, wish: ConnectorWish) -> dict[int, Status]:
        """Of the tasks that there are; those of earlier ones may still be in the log."""
        known = self.parts.statuses.tasks(wish.name)
        return {number: known.get(number, _UNASSIGNED) for number in range(len(wish.tasks))}

    def _no_class(self, name: str) -> HeadraceError:
        there = ", ".join(plugin.class_name for plugin in self.parts.plugins)
        return _invalid(
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {there}"
        )


_UNASSIGNED: Final = Status(state="UNASSIGNED", worker_id="")


def _task_ids(wish: ConnectorWish | None) -> list[dict[str, Any]]:
    tasks: Sequence[Any] = wish.tasks if wish is not None else ()
    return [{"connector": wish.name if wish else "", "task": number} for number in range(len(tasks))]


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(config: GivenConfig) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in config.items()) + "}"


def _not_found(message: str) -> HeadraceError:
    return HeadraceError("connector_not_found", message)


def _invalid(message: str) -> HeadraceError:
    return HeadraceError("connector_invalid", message)
