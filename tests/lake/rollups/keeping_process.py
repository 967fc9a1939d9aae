"""A process that takes one step of a rollup, and kills itself on the way: `… LAKE DEFINITION MOMENT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from headrace.lake.rollups.definition import rollup_from_json
from headrace.lake.rollups.maintaining import RollupMaintainer


def main(lake: str, definition: str, moment: str) -> None:
    def at_step(step: str) -> None:
        if step == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    RollupMaintainer(Path(lake), rollup_from_json(definition), at_step=at_step).step()


if __name__ == "__main__":
    main(*sys.argv[1:])
