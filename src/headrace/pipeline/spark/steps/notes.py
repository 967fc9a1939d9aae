"""Notes next to a checkpoint: results of a first start that later starts must reuse.

Crash behaviour: a note is synced before it gets its name, so it is written completely or not at all, also in
a power failure. Without a note, or with one that cannot be read, the result is determined again. One writer:
the start of the query.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

logger = logging.getLogger(__name__)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

Found = TypeVar("Found")


def noted(path: Path, find_out: Callable[[], Found], kind: type[Found]) -> Found:
    """What the note says, as JSON of this type; it is written first if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("The note %s cannot be read, and is found out again: %s", path, error)
    found = find_out()
    write_note(path, msgspec.json.encode(found))
    return found


def write_note(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
