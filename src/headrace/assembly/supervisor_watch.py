"""A supervised process ends with its supervisor, even if that was killed with SIGKILL.

The supervisor holds the write end of a pipe, every child the read end: its end of file is the
supervisor's end, on every Unix. As a second sign the parent's pid is looked at, in case a fork of the
supervisor still holds the pipe open. Linux's PR_SET_PDEATHSIG is not used on purpose: it would kill the
Python process alone and leave its JVM behind; and it is tied to the thread that forked, not to the
process. Invariant: when the supervisor is gone, so is the whole family of this process, at once: there is
nobody left to drain in order, and every part stands a crash.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from typing import Final

from headrace.assembly.process_family import MARK, kill_family

_log = logging.getLogger(__name__)
_LOOK_MS: Final = 1000


def end_with_supervisor(pipe: int) -> None:
    """Watch the read end of the supervisor's pipe from now on."""
    # What this process starts must not hold the pipe as well: it has its own reasons to end.
    os.set_inheritable(pipe, False)
    watch = threading.Thread(target=_watch, args=(pipe, os.getppid()), name="supervisor-watch", daemon=True)
    watch.start()


def _watch(pipe: int, supervisor: int) -> None:
    # Not `select`: it knows no descriptors above 1,023.
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while os.getppid() == supervisor:
        if poll.poll(_LOOK_MS):
            break
    _log.error("the supervisor (pid %d) is gone; this process and all it started end now", supervisor)
    own = os.getpid()
    if os.getpgrp() == own:
        kill_family(own, os.environ.get(MARK, ""))
    os.kill(own, signal.SIGKILL)
