"""The whole way once more with Apache Kafka as the log: `--engine kafka`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running_platform import Stream, new_prefix, running_platform, wait_for


@pytest.mark.long
def test_events_go_all_the_way_and_a_killed_log_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    with running_platform(tmp_path, engine="kafka") as platform:
        prefix, count = new_prefix(), 5_000
        stream = Stream(platform, prefix, count)
        wait_for(lambda: stream.progress > count / 2, "half of them are sent")
        killed = platform.kill("log")
        platform.wait_restarted("log", after=killed)
        sent = stream.finish()
        assert len(sent.receipts) > count / 2
        wait_for(lambda: platform.rows(prefix).keys() >= sent.receipts.keys(), "all receipts are in the lake")
        assert set(platform.rows(prefix).values()) == {1}
