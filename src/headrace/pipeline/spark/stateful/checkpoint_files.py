"""The files of one Spark checkpoint: which batches it can go on from, and a copy that ends at one of them.

Spark writes `offsets/N` before batch N (the range of each source), then the state as version N + 1, and
`commits/N` at the end. State is in `state/<operator>/<partition>/`, with a further folder for each store of a
join: `V.changelog` has the changes of version V, `V.zip` is a snapshot of all of it, whose tables are in
`SSTs/`. Version V can be loaded if a snapshot, or the empty version 0, and all changes since are there.

Nothing is synced to disk, so after a power failure the newest files may be empty, cut off or missing. What
can be checked without Spark is checked here: the texts in full, snapshots with their checksums and the sizes
of their tables, changes by their presence. Never mends or deletes a file: unreadable entries at the end of a
log are put aside, and a copy is another folder, of hard links where the disk has them. Spark replaces files
and never writes into one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

# Topic name → partition → next offset.
Positions = dict[str, dict[int, int]]

_VERSIONED: Final = re.compile(r"(\d+)\.(changelog|zip|delta|snapshot)")
_SNAPSHOT: Final = "zip"
_CHANGES: Final = "changelog"
_NO_OFFSET: Final = "-"
# Folders whose files are named after batches; the notes are ours (`generations.py`).
_BY_BATCH: Final = ("offsets", "commits", "notes", "refused")
# Other folders in that of a partition: files that snapshots share, and the schema of the state.
_NO_STORES: Final = ("SSTs", "logs", "_metadata")
# In the zip file of a snapshot: names and sizes of its tables.
_SNAPSHOT_LIST: Final = "metadata"


def batches_in(folder: Path) -> list[int]:
    """The numbers of the entries of a log, `offsets` or `commits`, whether they are readable or not."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def is_begun(checkpoint: Path) -> bool:
    """Whether Spark has begun to write the checkpoint, and can still read what it wrote first."""
    return _json_lines(checkpoint / "metadata") is not None


def positions_after(checkpoint: Path, batch: int) -> Positions | None:
    """Where the batch ends in each topic; None if its entry is missing or cannot be read.

    A topic that is read twice has the lower of the two offsets.
    """
    lines = _versioned_lines(checkpoint / "offsets" / str(batch))
    if lines is None or len(lines) < 2:
        return None
    found: Positions = {}
    for line in lines[1:]:
        if line == _NO_OFFSET:
            continue
        offsets = _parsed(line)
        if not isinstance(offsets, dict):
            return None
        for topic, of_topic in offsets.items():
            mine = found.setdefault(topic, {})
            for partition, offset in of_topic.items():
                mine[int(partition)] = min(offset, mine.get(int(partition), offset))
    return found if _parsed(lines[0]) is not None else None


def _has_range(checkpoint: Path, batch: int) -> bool:
    return positions_after(checkpoint, batch) is not None


def is_committed(checkpoint: Path, batch: int) -> bool:
    lines = _versioned_lines(checkpoint / "commits" / str(batch))
    return lines is not None and len(lines) == 1 and _parsed(lines[0]) is not None


def is_whole(checkpoint: Path, batch: int) -> bool:
    """Whether Spark can go on behind this batch. -1 stands for the beginning, before the first batch."""
    if batch < 0:
        is_new = not (checkpoint / "metadata").exists() and not batches_in(checkpoint / "offsets")
        return is_new or (
            is_begun(checkpoint)
            and all(_versioned_lines(path) is not None for path in checkpoint.glob("sources/*/0"))
        )
    return (
        is_begun(checkpoint)
        and positions_after(checkpoint, batch) is not None
        and is_committed(checkpoint, batch)
        and all(_has_version(store, batch + 1) for store in _stores(checkpoint / "state"))
        and all(path.stat().st_size for path in (checkpoint / "state").glob("*/_metadata/**/*[!.]"))
    )


def put_newest_aside(checkpoint: Path, aside: Path) -> list[str]:
    """Move the newest entries of the logs away as long as they cannot be read; what was moved.

    Spark reads the newest entry of each log, and fails on one that is cut off. A batch without its commit is
    repeated, one without its range never began.
    """
    moved = []
    for log, is_readable in (("commits", is_committed), ("offsets", _has_range)):
        for batch in reversed(batches_in(checkpoint / log)):
            is_needed = log == "offsets" and is_committed(checkpoint, batch)
            if is_readable(checkpoint, batch) or is_needed:
                break
            aside.mkdir(parents=True, exist_ok=True)
            (checkpoint / log / str(batch)).rename(aside / f"{log}-{batch}")
            moved.append(f"{log}/{batch}")
    return moved


def copy_up_to(checkpoint: Path, target: Path, batch: int) -> None:
    """Copy what belongs to the batches up to this one. `target` must not exist."""
    for path in sorted(checkpoint.rglob("*")):
        relative = path.relative_to(checkpoint)
        if path.is_dir():
            (target / relative).mkdir(parents=True, exist_ok=True)
        elif not path.name.startswith(".") and not _is_later(relative, batch):
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            _link(path, target / relative)


def raise_positions(checkpoint: Path, batch: int, firsts: Positions) -> None:
    """Have the next batch begin at these offsets, where the batch ends before them: the rest has expired.

    Also in partitions that the batch does not know: Spark takes it that they begin at 0, or fails.
    """
    path = checkpoint / "offsets" / str(batch)
    version, metadata, *sources = path.read_text().splitlines()
    raised = [version, metadata]
    for line in sources:
        offsets = {} if line == _NO_OFFSET else json.loads(line)
        for topic, of_topic in offsets.items():
            for partition, first in firsts.get(topic, {}).items():
                if of_topic.get(str(partition), 0) < first:
                    of_topic[str(partition)] = first
        raised.append(json.dumps(offsets, separators=(",", ":")) if offsets else line)
    # Another file: the former checkpoint may have the same one.
    unfinished = path.with_name(f".{path.name}.raised")
    unfinished.write_text("\n".join(raised))
    unfinished.replace(path)


def _is_later(relative: Path, batch: int) -> bool:
    if relative.parent.name in _BY_BATCH:
        return not relative.name.isdigit() or int(relative.name) > batch
    versioned = _VERSIONED.fullmatch(relative.name)
    return relative.parts[0] == "state" and versioned is not None and int(versioned[1]) > batch + 1


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:
        # Not every file system has links.
        shutil.copyfile(path, target)


def _stores(state: Path) -> Iterator[Path]:
    """The folders for versions: those of the partitions, or in a join the folders in them."""
    for partition in state.glob("*/[0-9]*"):
        stores = [path for path in partition.iterdir() if path.is_dir() and path.name not in _NO_STORES]
        yield from stores or [partition]


def _has_version(store: Path, version: int) -> bool:
    kinds: dict[int, set[str]] = {}
    for path in store.iterdir():
        versioned = _VERSIONED.fullmatch(path.name)
        if versioned is not None and path.stat().st_size:
            kinds.setdefault(int(versioned[1]), set()).add(versioned[2])
    while version > 0:
        found = kinds.get(version, set())
        if _SNAPSHOT in found and _is_sound_snapshot(store, version):
            return True
        if _CHANGES not in found:
            return False
        version -= 1
    return True


def _is_sound_snapshot(store: Path, version: int) -> bool:
    try:
        with zipfile.ZipFile(store / f"{version}.{_SNAPSHOT}") as snapshot:
            if snapshot.testzip() is not None:
                return False
            lines = snapshot.read(_SNAPSHOT_LIST).decode().splitlines()
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False
    listed = _parsed(lines[-1]) if lines else None
    return isinstance(listed, dict) and all(_is_there(store, each) for each in listed.get("sstFiles", ()))


def _is_there(store: Path, table: Mapping[str, Any]) -> bool:
    path = store / "SSTs" / str(table.get("dfsSstFileName"))
    return path.is_file() and path.stat().st_size == table.get("sizeBytes")


def _versioned_lines(path: Path) -> list[str] | None:
    """The lines below that with the version; None if the file is missing, empty or no text."""
    # The first positions of a source have a zero byte before them, for the sake of Spark 2.1.
    lines = _text(path).removeprefix("\0").splitlines()
    return lines[1:] if lines and re.fullmatch(r"v\d+", lines[0]) else None


def _json_lines(path: Path) -> list[Any] | None:
    lines = [_parsed(line) for line in _text(path).splitlines()]
    return lines if lines and None not in lines else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _parsed(text: str) -> Any:
    """None if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
