"""Ends a supervised process with its supervisor, even if that was killed with SIGKILL.

The supervisor holds the write end of a pipe and every child the read end: on every Unix, end of file means
that the supervisor is gone. The parent's pid is checked as well, in case a fork of the supervisor still holds
the pipe open. Linux's PR_SET_PDEATHSIG is deliberately not used: it would kill only the Python process and
leave its JVM behind, and it is tied to the thread that forked, not to the process. Invariant: when the
supervisor is gone, the whole family of this process is killed at once: nobody is left to drain it in order,
and every part survives a crash.
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
    # Children of this process must not hold the pipe too: they end for reasons of their own.
    os.set_inheritable(pipe, False)
    watch = threading.Thread(target=_watch, args=(pipe, os.getppid()), name="supervisor-watch", daemon=True)
    watch.start()


def _watch(pipe: int, supervisor: int) -> None:
    # Not `select`: it cannot handle descriptors above 1,023.
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while os.getppid() == supervisor:
        if poll.poll(_LOOK_MS):
            break
    _log.error("the supervisor (pid %d) is gone; ending this process and everything it started", supervisor)
    own = os.getpid()
    if os.getpgrp() == own:
        kill_family(own, os.environ.get(MARK, ""))
    os.kill(own, signal.SIGKILL)
