"""The platform's own statements: run once, on a log that has none yet.

What they made is then like what any other statement made: it can be described, replaced and dropped, and does
not come back.
"""

from __future__ import annotations

import logging
from importlib import resources

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.engine.engine import Engine
from headrace.pipeline.engine.errors import StatementFailedError
from headrace.pipeline.engine.session import Session

_log = logging.getLogger(__name__)


def startup_statements() -> str:
    return (resources.files("headrace") / "examples" / "marketplace" / "events.sql").read_text("utf-8")


def session_of(settings: Settings) -> Session:
    return Session(variables={"events_topic": settings.events_topic})


def run_startup_statements(engine: Engine, settings: Settings) -> None:
    """Raises HeadraceError if one of them fails."""
    engine.log.read_to_end()
    if engine.log.last >= 0:
        return
    try:
        engine.execute(startup_statements(), session_of(settings))
    except StatementFailedError as error:
        # Two gateways that start at the same time: the other one was quicker.
        if engine.log.last < 0:
            raise HeadraceError("pipeline_failed", f"The platform's own statements fail: {error}.") from error
    _log.info("The log had no statements; those of the platform were run.")
