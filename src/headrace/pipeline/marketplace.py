"""The example: statements from posted events to Avro, and a connector from Avro to a table of the lake.

Both are what a user would type, in `examples/marketplace/`; `headrace demo` sends them to the platform.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

_DEFINITION: Final = "DEFINE events_topic = '{}';"
_TOPIC: Final = "events"


def statements(events_topic: str) -> str:
    text = _file("events.sql")
    return text.replace(_DEFINITION.format(_TOPIC), _DEFINITION.format(events_topic))


def connector(events_topic: str) -> dict[str, Any]:
    """For `POST /connectors`."""
    content: dict[str, Any] = json.loads(_file("lake.json"))
    config = content["config"]
    for setting in ("topics", "errors.deadletterqueue.topic.name"):
        config[setting] = config[setting].replace(_TOPIC, events_topic)
    return content


def _file(name: str) -> str:
    return (resources.files("headrace") / "examples" / "marketplace" / name).read_text("utf-8")
