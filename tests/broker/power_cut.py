"""`headrace broker` on a disk that forgets what was not synced: its power can be cut.

    python -m tests.broker.power_cut BOOT SEED broker --data-dir … --port …

BOOT is the id of the machine's boot. SIGUSR1 cuts the power: the files go back to what was synced, and the
process ends at once. With SIGUSR2 a random part of the rest survives too, perhaps torn. SIGKILL ends only the
process, so everything that was written stays. The next start after a cut must be given another BOOT.

The disk is `FaultyFileSystem` on real files. It knows only what this process wrote: what a killed process
left unsynced counts as synced for the next one. It keeps a copy of every file in memory.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from unittest import mock

from headrace.cli.main import main
from headrace.log.folder import data_folder
from headrace.testing.faulty_filesystem import FaultyFileSystem, Survivors

SURVIVORS: dict[int, Survivors] = {signal.SIGUSR1: "none", signal.SIGUSR2: "some"}


def await_power_cut(disk: FaultyFileSystem) -> None:
    number = signal.sigwait(SURVIVORS)
    disk.power_loss(SURVIVORS[number])
    os._exit(1)


if __name__ == "__main__":
    boot, seed, *arguments = sys.argv[1:]
    disk = FaultyFileSystem(boot=boot, seed=int(seed))
    # Threads inherit the mask, so the signals reach only the one that waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, SURVIVORS)
    threading.Thread(target=await_power_cut, args=(disk,), daemon=True).start()
    sys.argv[1:] = arguments
    with mock.patch.object(data_folder, "OperatingSystem", return_value=disk):
        main()
