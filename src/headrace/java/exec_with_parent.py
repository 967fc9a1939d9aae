"""A program, not a library: turns into another program, which the kernel kills when its parent dies.

Run as `python exec_with_parent.py PARENT_PID COMMAND...`. It requests the signal from the kernel and then
replaces itself, which preserves the request. A `preexec_fn` is not used because it runs Python between fork
and exec, which can hang in a process with threads. Only Linux supports this; elsewhere the command just runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the request, so the kernel would never send the signal
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
