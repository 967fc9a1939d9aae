"""Public test kit: an in-process broker, a pytest plugin, a file system that fails, a checker of histories.

Never: being imported by anything in `src`.

`EmbeddedBroker` is imported when it is first used, so that loading the pytest plugin costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.embedded_broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]


def __getattr__(name: str) -> Any:
    if name != "EmbeddedBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.testing.embedded_broker import EmbeddedBroker  # noqa: PLC0415

    return EmbeddedBroker
