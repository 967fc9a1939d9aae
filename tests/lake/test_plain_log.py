"""Tables of plain files: whoever lists the folder never sees a row twice, whatever crashes when."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import VersionChangedError
from headrace.lake.location import Location
from headrace.lake.plain_log import PLAIN_FOLDER, PUBLISHED, STAGED, STAGING, PlainDefinition, PlainLog
from headrace.lake.positions import Progress, Reached
from headrace.lake.resuming import history
from headrace.lake.sink import FileFormat
from headrace.lake.types import Field, Simple, Struct
from tests.lake.made_storage import CrashError, MadeStorage
from tests.lake.stored_tables import StoredTable

DEFINITION = PlainDefinition(
    file_format=FileFormat.JSON,
    columns=Struct(fields=(Field(name="id", type=Simple.BIGINT),)),
    partition_columns=("kind",),
)
TABLE = Location.local(Path("/lake/t"))


class Run:
    """A run of the pipeline. Rows are numbers, one a line; even and odd ones are in two folders."""

    def __init__(self, storage: MadeStorage) -> None:
        self.storage = storage
        self.log = PlainLog(TABLE, opens=storage.opens)
        if self.log.open() is None:
            self.log.create(DEFINITION)
        said = next(history(self.log))
        self.version = self.log.seen(self.log.newest_version())
        self.next = said.progress.positions.offsets.get(0, 0)

    def batch(self, rows: int) -> None:
        numbers = range(self.next, self.next + rows)
        staging, adds = self.log.new_staging(), []
        for kind, chosen in enumerate([n for n in numbers if n % 2 == odd] for odd in (0, 1)):
            if not chosen:
                continue
            staged, content = f"{staging}/__0={kind}/part", "".join(f"{n}\n" for n in chosen)
            self.storage.put(f"/lake/{staged}", content.encode())
            adds.append(
                {
                    "path": f"kind={kind}/t+0+{self.next:010d}.json",
                    "size": len(content),
                    "tags": {STAGED: staged},
                }
            )
        progress = Progress(positions=Reached(topic_id="id", offsets={0: self.next + rows}))
        info = {"operation": "WRITE", "userMetadata": progress.as_metadata()}
        actions = [json.dumps({"add": add}) for add in adds]
        self.version = self.log.add_commit(self.version.number + 1, info, actions, after=self.version)
        self.next += rows


def listed(storage: MadeStorage) -> Counter[int]:
    """What somebody finds who takes every data file in the folder."""
    files = (name for name in storage.files if name.startswith("/lake/t/") and name.endswith(".json"))
    return Counter(int(line) for name in files for line in storage.files[name].split())


def committed(storage: MadeStorage) -> Counter[int]:
    """What somebody finds who reads the log up to the version that is published."""
    log = PlainLog(TABLE, opens=storage.opens)
    found: Counter[int] = Counter()
    for version in range(log.published_version() + 1):
        for action in log.actions(version):
            if "add" in action:
                found.update(map(int, storage.files[f"/lake/t/{action['add']['path']}"].split()))
    return found


@settings(max_examples=300)
@given(
    batches=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    crashes=st.lists(st.tuples(st.integers(0, 14), st.booleans()), max_size=6),
)
def test_readers_see_each_row_at_most_once_and_in_the_end_once(
    batches: list[int], crashes: list[tuple[int, bool]]
) -> None:
    storage = MadeStorage()

    def watch() -> None:
        assert max(listed(storage).values(), default=1) == 1
        assert committed(storage) <= listed(storage)

    storage.watch = watch
    wanted = sum(batches)
    for steps, loses_answers in [*crashes, (None, False)]:
        storage.steps, storage.loses_answers = steps, loses_answers
        try:
            run = Run(storage)
            # What was sent before the crash arrives after the new run has looked.
            storage.arrive()
            while run.next < wanted:
                run.batch(min(batches[run.next % len(batches)], wanted - run.next))
        except CrashError:
            continue
        except (FileExistsError, VersionChangedError):
            # A commit of the run before was first; this run ends, and the next one sees it.
            pass
    storage.steps = None
    last = Run(storage)
    while last.next < wanted:
        last.batch(1)
    assert listed(storage) == committed(storage) == Counter(range(wanted))
    last.log.open()
    last.batch(1)
    assert not [name for name in storage.files if STAGING in name], "nothing is left beside the table"


def test_a_row_counts_with_its_commit_and_is_published_by_the_next_start() -> None:
    storage = MadeStorage()
    run = Run(storage)
    # Two files and the commit are written, the first file is published.
    storage.steps = 4
    with pytest.raises(CrashError):
        run.batch(2)
    assert listed(storage) == Counter([0])
    assert committed(storage) == Counter()
    storage.steps = None
    assert Run(storage).next == 2
    assert listed(storage) == committed(storage) == Counter([0, 1])


def test_a_published_file_that_somebody_removed_is_none_of_ours() -> None:
    storage = MadeStorage()
    Run(storage).batch(1)
    storage.files = {name: each for name, each in storage.files.items() if not name.endswith(".json")}
    assert Run(storage).next == 1


def test_a_committed_file_that_is_nowhere_is_damage() -> None:
    storage = MadeStorage()
    run = Run(storage)
    storage.steps = 2
    with pytest.raises(CrashError):
        run.batch(1)
    storage.steps = None
    storage.files = {name: each for name, each in storage.files.items() if STAGING not in name}
    with pytest.raises(HeadraceError, match=f"version 1 is neither there nor in {STAGING}") as raised:
        Run(storage)
    assert raised.value.code == "lake_damaged"


def test_a_torn_commit_is_damage_and_nothing_is_read_again() -> None:
    storage = MadeStorage()
    Run(storage).batch(1)
    (newest,) = (name for name in storage.files if name.endswith("1.commit"))
    storage.files[newest] = storage.files[newest][:20]
    with pytest.raises(HeadraceError, match="line 1 is not whole JSON"):
        Run(storage)


def test_a_file_of_somebody_else_is_not_overwritten() -> None:
    storage = MadeStorage()
    run = Run(storage)
    storage.files["/lake/t/kind=0/t+0+0000000000.json"] = b"theirs\n"
    with pytest.raises(HeadraceError, match="there is one that is not the table's"):
        run.batch(1)
    assert run.log.newest_version() == 0
    assert storage.files["/lake/t/kind=0/t+0+0000000000.json"] == b"theirs\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("kind=0/t+0+0000000000.json", "has files that are not"), ("_delta_log/0.json", "is a Delta table")],
)
def test_a_folder_with_files_does_not_become_a_table(name: str, reason: str) -> None:
    storage = MadeStorage(files={f"/lake/t/{name}": b"theirs\n"})
    with pytest.raises(HeadraceError, match=reason):
        Run(storage)


def test_columns_are_in_the_log(table: StoredTable) -> None:
    """In a real folder and a real bucket."""
    log = PlainLog(table.location)
    assert log.open() is None
    log.create(DEFINITION)
    more = PlainDefinition(
        file_format=FileFormat.JSON,
        columns=Struct(fields=(*DEFINITION.columns.fields, Field(name="at", type=Simple.TIMESTAMP))),
        partition_columns=("kind",),
    )
    log.change(more)
    seen = log.seen(1)
    log.add_commit(2, {"operation": "WRITE"}, [], after=seen)
    again = PlainLog(table.location)
    assert again.open() == more
    assert (again.versions(), again.published_version()) == ([0, 1, 2], 2)
    with pytest.raises(FileExistsError):
        again.add_commit(2, {"operation": "WRITE"}, [], after=seen)


def test_files_get_their_names(table: StoredTable) -> None:
    """In a real folder and a real bucket: after a crash behind the commit, too."""
    log = PlainLog(table.location)
    log.open()
    log.create(DEFINITION)
    table.put("kind=1/theirs.txt", b"x")
    staging = log.new_staging()
    name = "__0=a b%2Fü/part-0.json"
    table.put(f"../{staging}/{name}" if table.client is None else "x", b"1\n2\n")
    if table.client is not None:
        place = log.staged_location(f"{staging}/{name}")
        assert not isinstance(place.storage, type(None))
        table.client.put_object(Bucket=place.storage.bucket, Key=place.key, Body=b"1\n2\n")  # type: ignore[union-attr]
    assert log.staged_files(staging) == [(name, 4)]
    add = {
        "path": "kind=a%20b%252F%C3%BC/t%2B0.json",
        "size": 4,
        "tags": {STAGED: f"{staging}/{name}"},
    }
    log.add_commit(1, {"operation": "WRITE"}, [json.dumps({"add": add})], after=log.seen(0))
    assert table.read("kind=a b%2Fü/t+0.json") == b"1\n2\n"
    assert log.staged_files(staging) == []
    # As after a crash: it was not noted that the files have their names.
    table.put(f"{PLAIN_FOLDER}/{PUBLISHED}", b"0")
    assert PlainLog(table.location).open() == DEFINITION
    assert table.read(f"{PLAIN_FOLDER}/{PUBLISHED}") == b"1"
