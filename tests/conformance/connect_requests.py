"""A conversation with a Connect worker, as a table: requests in their order, and what to wait for in between.

It is had with Apache Kafka's own worker and with ours; `test_connect_rest.py` compares the answers. Texts
have `{folder}` for the folder of the worker's files. A new request is a row here; a difference that has a
reason is a row in `connect_differences.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`until` names states of a connector and its tasks to wait for after the request; by `of`."""

    name: str
    method: str
    path: str
    body: Any = None
    media_type: str = "application/json"
    of: str = ""
    until: tuple[str, ...] | None = None

    @property
    def content(self) -> str | None:
        return self.body if self.body is None or isinstance(self.body, str) else json.dumps(self.body)


def _request(name: str, method: str, path: str, body: Any = None, **more: Any) -> Request:
    return Request(name=name, method=method, path=path, body=body, **more)


SOURCE: Final = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "file": "{folder}/in.txt",
    "topic": "{topic}",
}
SINK: Final = {
    "connector.class": "FileStreamSink",
    "tasks.max": "1",
    "file": "{folder}/out.txt",
    "topics": "{topic}",
}
_VALIDATE_SOURCE: Final = "/connector-plugins/FileStreamSource/config/validate"
_VALIDATE_SINK: Final = "/connector-plugins/FileStreamSink/config/validate"
_PLACE: Final = {"filename": "{folder}/in.txt"}


def _offsets(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}


def _group(topic: str, partition: Any, offset: Any) -> dict[str, Any]:
    return _offsets(({"kafka_topic": topic, "kafka_partition": partition}, offset))


def _create(name: str, config: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "config": config, **more}


_ABOUT: Final = (
    _request("root", "GET", "/"),
    _request("health", "GET", "/health"),
    _request("no connectors", "GET", "/connectors"),
    _request("no connectors, with a slash", "GET", "/connectors/"),
    _request("no such page", "GET", "/nothing"),
    _request("no such method", "PUT", "/connectors"),
    _request("no such method of the root", "POST", "/"),
)

_PLUGINS: Final = (
    _request("plugins", "GET", "/connector-plugins"),
    _request("all plugins", "GET", "/connector-plugins?connectorsOnly=false"),
    _request("settings of the source", "GET", "/connector-plugins/FileStreamSource/config"),
    _request("settings of the sink", "GET", "/connector-plugins/FileStreamSinkConnector/config"),
    _request("settings of a converter", "GET", "/connector-plugins/JsonConverter/config"),
    _request("settings of nothing", "GET", "/connector-plugins/Nope/config"),
    _request("validate nothing", "PUT", _VALIDATE_SOURCE, {}),
    _request("validate a class alone", "PUT", _VALIDATE_SOURCE, {"connector.class": "FileStreamSource"}),
    _request("validate a sink's class alone", "PUT", _VALIDATE_SINK, {"connector.class": "FileStreamSink"}),
    _request(
        "validate wrong numbers",
        "PUT",
        _VALIDATE_SOURCE,
        {**SOURCE, "name": "x", "unknown": "y", "tasks.max": "0", "batch.size": "z"},
    ),
    _request(
        "validate two kinds of topics", "PUT", _VALIDATE_SINK, {**SINK, "name": "x", "topics.regex": "a"}
    ),
    _request(
        "validate errors and converters",
        "PUT",
        _VALIDATE_SINK,
        {
            **SINK,
            "name": "x",
            "errors.tolerance": "some",
            "errors.deadletterqueue.topic.name": "{topic}",
            "value.converter": "Nope",
        },
    ),
    _request("validate what is right", "PUT", _VALIDATE_SINK, {**SINK, "name": "x"}),
    _request("validate another class", "PUT", _VALIDATE_SINK, {**SOURCE, "name": "x"}),
    _request(
        "validate no class that exists",
        "PUT",
        "/connector-plugins/Nope/config/validate",
        {"connector.class": "Nope"},
    ),
    _request("validate a list", "PUT", _VALIDATE_SINK, "[]"),
)

_BAD_CREATIONS: Final = (
    _request("create with half of JSON", "POST", "/connectors", "{"),
    _request("create with a list", "POST", "/connectors", "[]"),
    _request("create with nothing in it", "POST", "/connectors", "{}"),
    _request("create without a body", "POST", "/connectors", ""),
    _request("create without a class", "POST", "/connectors", _create("a", {})),
    _request("create without a config", "POST", "/connectors", _create("a", None)),
    _request("create with an unknown field", "POST", "/connectors", _create("a", {}, more=1)),
    _request(
        "create without a name", "POST", "/connectors", _create("", {"connector.class": "FileStreamSource"})
    ),
    _request("create with a bell", "POST", "/connectors", _create("a\u0007b", SOURCE)),
    _request("create with two names", "POST", "/connectors", _create("a", {**SOURCE, "name": "b"})),
    _request(
        "create with no class that exists", "POST", "/connectors", _create("a", {"connector.class": "Nope"})
    ),
    _request("create with a nested value", "POST", "/connectors", _create("a", {**SOURCE, "x": {"y": 1}})),
    _request("create in no state", "POST", "/connectors", _create("a", SOURCE, initial_state="WRONG")),
    _request(
        "create without a topic", "POST", "/connectors", _create("a", {"connector.class": "FileStreamSource"})
    ),
    _request("create with a null", "POST", "/connectors", _create("a", {**SOURCE, "tasks.max": None})),
    _request(
        "create from a form", "POST", "/connectors", "name=a", media_type="application/x-www-form-urlencoded"
    ),
)

_SOURCE_LIFE: Final = (
    _request(
        "create a source",
        "POST",
        "/connectors",
        _create("{name}", SOURCE),
        of="{name}",
        until=("RUNNING", "RUNNING"),
    ),
    _request("create it again", "POST", "/connectors", _create("{name}", SOURCE)),
    _request("describe it", "GET", "/connectors/{name}"),
    _request("describe it, with a slash", "GET", "/connectors/{name}/"),
    _request("its config", "GET", "/connectors/{name}/config"),
    _request("its status", "GET", "/connectors/{name}/status"),
    _request("its tasks", "GET", "/connectors/{name}/tasks"),
    _request("its task's status", "GET", "/connectors/{name}/tasks/0/status"),
    _request("no task's status", "GET", "/connectors/{name}/tasks/9/status"),
    _request("no number's status", "GET", "/connectors/{name}/tasks/x/status"),
    _request("no route of it", "GET", "/connectors/{name}/tasks-config"),
    _request("its topics", "GET", "/connectors/{name}/topics"),
    _request(
        "alter offsets while it runs",
        "PATCH",
        "/connectors/{name}/offsets",
        _offsets((_PLACE, {"position": 4})),
    ),
    _request("reset offsets while it runs", "DELETE", "/connectors/{name}/offsets"),
    _request("pause it", "PUT", "/connectors/{name}/pause", of="{name}", until=("PAUSED", "PAUSED")),
    _request("its status, paused", "GET", "/connectors/{name}/status"),
    _request("resume it", "PUT", "/connectors/{name}/resume", of="{name}", until=("RUNNING", "RUNNING")),
    _request("restart it", "POST", "/connectors/{name}/restart", of="{name}", until=("RUNNING", "RUNNING")),
    _request(
        "restart it with tasks",
        "POST",
        "/connectors/{name}/restart?includeTasks=true",
        of="{name}",
        until=("RUNNING", "RUNNING"),
    ),
    _request("restart what failed", "POST", "/connectors/{name}/restart?includeTasks=true&onlyFailed=true"),
    _request("restart with a strange word", "POST", "/connectors/{name}/restart?includeTasks=maybe"),
    _request(
        "restart a task",
        "POST",
        "/connectors/{name}/tasks/0/restart",
        of="{name}",
        until=("RUNNING", "RUNNING"),
    ),
    _request("restart no task", "POST", "/connectors/{name}/tasks/7/restart"),
    _request("restart no number", "POST", "/connectors/{name}/tasks/x/restart"),
)

_SOURCE_OFFSETS: Final = (
    _request("stop it", "PUT", "/connectors/{name}/stop", of="{name}", until=("STOPPED",)),
    _request("its tasks, stopped", "GET", "/connectors/{name}/tasks"),
    _request("describe it, stopped", "GET", "/connectors/{name}"),
    _request("restart it, stopped", "POST", "/connectors/{name}/restart"),
    _request("its offsets", "GET", "/connectors/{name}/offsets"),
    _request("alter nothing", "PATCH", "/connectors/{name}/offsets", {}),
    _request("alter an empty list", "PATCH", "/connectors/{name}/offsets", {"offsets": []}),
    _request("alter with a list", "PATCH", "/connectors/{name}/offsets", "[]"),
    _request("alter an unknown field", "PATCH", "/connectors/{name}/offsets", {"x": 1}),
    _request("alter its offset", "PATCH", "/connectors/{name}/offsets", _offsets((_PLACE, {"position": 4}))),
    _request("its offsets, altered", "GET", "/connectors/{name}/offsets"),
    _request(
        "alter to less than nothing",
        "PATCH",
        "/connectors/{name}/offsets",
        _offsets((_PLACE, {"position": -4})),
    ),
    _request("alter to a text", "PATCH", "/connectors/{name}/offsets", _offsets((_PLACE, {"position": "x"}))),
    _request(
        "alter no file", "PATCH", "/connectors/{name}/offsets", _offsets(({"file": "x"}, {"position": 4}))
    ),
    _request("remove its offset", "PATCH", "/connectors/{name}/offsets", _offsets((_PLACE, None))),
    _request("its offsets, removed", "GET", "/connectors/{name}/offsets"),
    _request(
        "alter an offset of another file",
        "PATCH",
        "/connectors/{name}/offsets",
        _offsets(({"filename": "a"}, {"position": 1})),
    ),
    _request("reset its offsets", "DELETE", "/connectors/{name}/offsets"),
    _request("its offsets, reset", "GET", "/connectors/{name}/offsets"),
    _request(
        "resume it again", "PUT", "/connectors/{name}/resume", of="{name}", until=("RUNNING", "RUNNING")
    ),
)

_NOBODY: Final = (
    _request("describe nobody", "GET", "/connectors/nobody"),
    _request("config of nobody", "GET", "/connectors/nobody/config"),
    _request("status of nobody", "GET", "/connectors/nobody/status"),
    _request("tasks of nobody", "GET", "/connectors/nobody/tasks"),
    _request("task status of nobody", "GET", "/connectors/nobody/tasks/0/status"),
    _request("topics of nobody", "GET", "/connectors/nobody/topics"),
    _request("forget topics of nobody", "PUT", "/connectors/nobody/topics/reset"),
    _request("offsets of nobody", "GET", "/connectors/nobody/offsets"),
    _request(
        "alter offsets of nobody", "PATCH", "/connectors/nobody/offsets", _offsets((_PLACE, {"position": 4}))
    ),
    _request("reset offsets of nobody", "DELETE", "/connectors/nobody/offsets"),
    _request("pause nobody", "PUT", "/connectors/nobody/pause"),
    _request("resume nobody", "PUT", "/connectors/nobody/resume"),
    _request("stop nobody", "PUT", "/connectors/nobody/stop"),
    _request("restart nobody", "POST", "/connectors/nobody/restart"),
    _request("restart tasks of nobody", "POST", "/connectors/nobody/restart?includeTasks=true"),
    _request("restart a task of nobody", "POST", "/connectors/nobody/tasks/0/restart"),
    _request("patch nobody", "PATCH", "/connectors/nobody/config", {"a": "b"}),
    _request("delete nobody", "DELETE", "/connectors/nobody"),
)

_SINK_LIFE: Final = (
    _request(
        "put a sink",
        "PUT",
        "/connectors/{name}-sink/config",
        SINK,
        of="{name}-sink",
        until=("RUNNING", "RUNNING"),
    ),
    _request("describe the sink", "GET", "/connectors/{name}-sink"),
    _request("put another name", "PUT", "/connectors/{name}-sink/config", {**SINK, "name": "other"}),
    _request("put no class", "PUT", "/connectors/{name}-sink/config", {}),
    _request(
        "put a class alone", "PUT", "/connectors/{name}-sink/config", {"connector.class": "FileStreamSink"}
    ),
    _request("put a list", "PUT", "/connectors/{name}-sink/config", "[]"),
    _request(
        "put two tasks",
        "PUT",
        "/connectors/{name}-sink/config",
        {**SINK, "tasks.max": "2"},
        of="{name}-sink",
        until=("RUNNING", "RUNNING", "RUNNING"),
    ),
    _request("its two tasks", "GET", "/connectors/{name}-sink/tasks"),
    _request(
        "patch it",
        "PATCH",
        "/connectors/{name}-sink/config",
        {"tasks.max": "1", "foo": "bar"},
        of="{name}-sink",
        until=("RUNNING", "RUNNING"),
    ),
    _request("patch a setting away", "PATCH", "/connectors/{name}-sink/config", {"foo": None}),
    _request("patch its topics away", "PATCH", "/connectors/{name}-sink/config", {"topics": None}),
    _request("patch with a list", "PATCH", "/connectors/{name}-sink/config", "[]"),
    _request("stop the sink", "PUT", "/connectors/{name}-sink/stop", of="{name}-sink", until=("STOPPED",)),
)

_SINK_OFFSETS: Final = tuple(
    each
    for name, body in (
        ("a number", _group("{topic}", 0, {"kafka_offset": 1})),
        ("a text", _group("{topic}", "0", {"kafka_offset": "2"})),
        ("no partition", _offsets(({"kafka_topic": "{topic}"}, {"kafka_offset": 1}))),
        ("no offset", _group("{topic}", 0, {"offset": 1})),
        ("no number", _group("{topic}", 0, {"kafka_offset": "x"})),
        ("less than nothing", _group("{topic}", 0, {"kafka_offset": -1})),
        ("no topic that exists", _group("no-such-topic", 0, {"kafka_offset": 1})),
        ("null", _group("{topic}", 0, None)),
    )
    for each in (
        _request(f"alter the sink to {name}", "PATCH", "/connectors/{name}-sink/offsets", body),
        _request(f"the sink's offsets after {name}", "GET", "/connectors/{name}-sink/offsets"),
    )
)

_REST: Final = (
    _request("reset the sink's offsets", "DELETE", "/connectors/{name}-sink/offsets"),
    _request(
        "create a paused one",
        "POST",
        "/connectors/",
        _create("{name}-paused", SOURCE, initial_state="PAUSED"),
        of="{name}-paused",
        until=("PAUSED",),
    ),
    _request("status of the paused one", "GET", "/connectors/{name}-paused/status"),
    _request(
        "create a stopped one",
        "POST",
        "/connectors",
        _create("{name}-stopped", SOURCE, initial_state="stopped"),
        of="{name}-stopped",
        until=("STOPPED",),
    ),
    _request("status of the stopped one", "GET", "/connectors/{name}-stopped/status"),
    _request(
        "create one that fails",
        "POST",
        "/connectors",
        _create("{name}-fails", {**SINK, "file": "{folder}/folder"}),
        of="{name}-fails",
        until=("RUNNING", "FAILED"),
    ),
    _request("status of the failed one", "GET", "/connectors/{name}-fails/status"),
    _request("all with everything", "GET", "/connectors?expand=info&expand=status"),
    _request(
        "restart the failed task",
        "POST",
        "/connectors/{name}-fails/restart?includeTasks=true&onlyFailed=true",
    ),
    _request("all with nothing that exists", "GET", "/connectors?expand=nope"),
    _request(
        "a name in other letters",
        "POST",
        "/connectors",
        _create("ünï cödé", {**SOURCE}, initial_state="STOPPED"),
    ),
    _request("describe it by its name", "GET", "/connectors/%C3%BCn%C3%AF%20c%C3%B6d%C3%A9"),
    _request("delete it by its name", "DELETE", "/connectors/%C3%BCn%C3%AF%20c%C3%B6d%C3%A9"),
    _request("loggers", "GET", "/admin/loggers"),
    _request("no such logger", "GET", "/admin/loggers/org.nope"),
    _request("set a level", "PUT", "/admin/loggers/org.apache.kafka.connect.nowhere", {"level": "DEBUG"}),
    _request("set no such level", "PUT", "/admin/loggers/org.apache.kafka.connect", {"level": "LOUD"}),
    _request("set no level", "PUT", "/admin/loggers/org.apache.kafka.connect", {}),
    _request(
        "set a level everywhere",
        "PUT",
        "/admin/loggers/org.apache.kafka.connect.nowhere?scope=cluster",
        {"level": "INFO"},
    ),
    _request("delete it", "DELETE", "/connectors/{name}"),
    _request("describe it, deleted", "GET", "/connectors/{name}"),
    _request("delete it again", "DELETE", "/connectors/{name}"),
    _request("create with a slash", "POST", "/connectors", _create("a/b", SOURCE)),
    _request("patch its name", "PATCH", "/connectors/{name}-sink/config", {"name": "zz"}),
)

CONVERSATION: Final = (
    *_ABOUT,
    *_PLUGINS,
    *_BAD_CREATIONS,
    *_SOURCE_LIFE,
    *_SOURCE_OFFSETS,
    *_NOBODY,
    *_SINK_LIFE,
    *_SINK_OFFSETS,
    *_REST,
)
