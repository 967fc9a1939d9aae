"""The pipeline process's side of rollups, with a log: made, kept, removed, and what is said of them."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.assembly.rollup_keeping import RollupKeeping
from headrace.lake.rollups.definition import RollupDefinition
from headrace.lake.rollups.stored import FOLDER, StoredRollup, rollup_folder
from headrace.pipeline.catalogue.rollups import RollupLog, RollupStatus, RollupWish
from headrace.testing import EmbeddedBroker
from tests.query.rollups.lakes import TABLE, append, definition, row


class Kept:
    """The log as the gateway has it, and the keeping of another process."""

    def __init__(self, lake: Path, broker: EmbeddedBroker) -> None:
        topic = f"_rollups_{uuid.uuid4().hex}"
        self.lake = lake
        self.log = RollupLog(broker.bootstrap, topic=topic)
        self.log.start()
        self.make: Callable[[], RollupKeeping] = lambda: RollupKeeping(
            RollupLog(broker.bootstrap, topic=topic), lake, seconds=0.1
        )

    def want(self, **more: object) -> RollupDefinition:
        made = definition(self.lake, dimensions=["kind"], measures=[("count", "x")], **more)  # type: ignore[arg-type]
        self.log.put(RollupWish(definition=made, statement="CREATE ROLLUP …;"))
        return made

    def wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def status(self, wanted: RollupDefinition) -> RollupStatus:
        self.log.refresh()
        return self.log.status(wanted.id)

    def wait_for(self, wanted: RollupDefinition, state: str, version: int = -1) -> RollupStatus:
        self.wait(lambda: (self.status(wanted).state, self.status(wanted).version) == (state, version), state)
        return self.status(wanted)

    def version(self, wanted: RollupDefinition) -> int:
        found = StoredRollup(rollup_folder(self.lake, wanted)).follow()
        return -1 if found is None else found.stands_for.version

    def folders(self) -> list[str]:
        return sorted(each.name for each in (self.lake / FOLDER).iterdir())


@pytest.fixture
def kept(tmp_path: Path, broker: EmbeddedBroker) -> Iterator[Kept]:
    append(tmp_path, [row("a"), row("b")])
    made = Kept(tmp_path, broker)
    yield made
    made.log.stop()


def test_made_kept_and_removed(kept: Kept) -> None:
    wanted = kept.want()
    with kept.make():
        assert kept.wait_for(wanted, "RUNNING", 0).groups == 2
        append(kept.lake, [row("c")])
        kept.wait(lambda: kept.version(wanted) == 1, "it follows the table")
        again = kept.want()
        kept.wait_for(again, "RUNNING", 1)
        kept.wait(lambda: kept.folders() == [f"R.{again.id}"], "the replaced one is removed")
        kept.log.remove("R")
        kept.wait(lambda: not kept.folders(), "its folder is removed")
        kept.wait(lambda: not (kept.log.refresh() or kept.log.statuses()), "its status is removed")


def test_another_process_goes_on(kept: Kept) -> None:
    wanted = kept.want()
    with kept.make():
        kept.wait_for(wanted, "RUNNING", 0)
    append(kept.lake, [row("c")])
    # What a killed process has left, and a rollup that was dropped meanwhile.
    (kept.lake / FOLDER / ".R.gone.1").mkdir()
    (kept.lake / FOLDER / "OTHER.2" / "_delta_log").mkdir(parents=True)
    with kept.make():
        kept.wait(lambda: kept.version(wanted) == 1, "it goes on")
        kept.wait(lambda: kept.folders() == [f"R.{wanted.id}"], "others are removed")


def test_a_table_that_is_not_there(kept: Kept) -> None:
    wanted = kept.want()
    shutil.move(kept.lake / TABLE, kept.lake / "away")
    with kept.make():
        assert "no table events" in kept.wait_for(wanted, "WAITING").message


def test_one_that_fails_does_not_disturb_the_others(kept: Kept) -> None:
    failing, wanted = kept.want(name="FAILING"), kept.want()
    (kept.lake / FOLDER).mkdir()
    # A file where its folder should be.
    rollup_folder(kept.lake, failing).write_text("in the way")
    with kept.make():
        kept.wait_for(wanted, "RUNNING", 0)
        kept.wait(lambda: kept.status(failing).state == "FAILED", "it says that it fails")
        DeltaTable(kept.lake / TABLE).delete("kind = 'a'")
        kept.wait(lambda: kept.version(wanted) == 1, "the other goes on")
