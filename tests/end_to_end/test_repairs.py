"""`headrace reconcile --repair` on a platform that runs: what is gone comes back, once, all the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from headrace.client.cluster import Cluster
from tests.running_platform import Platform, event, new_prefix, running_platform, wait_for

pytestmark = pytest.mark.long

AVRO = "CSAS_EVENTS_AVRO_1"
LAKE = "events-lake.events_avro"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform of its own, since records and rows of it are removed."""
    with running_platform(tmp_path_factory.mktemp("platform")) as running:
        yield running


def posted(platform: Platform, count: int) -> str:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}") for number in range(count)])
    platform.wait_in_lake(prefix, count)
    return prefix


def lose_rows(platform: Platform, prefix: str) -> None:
    lost = f"USER_ID IN ('{prefix}-3', '{prefix}-7')"
    wait_for(lambda: _deleted(platform, lost), "two rows are deleted")


def _deleted(platform: Platform, condition: str) -> bool:
    """False if the lake committed at the same time."""
    table = DeltaTable(platform.settings.lake_dir / "events")
    try:
        return bool(table.delete(condition)["num_deleted_rows"] == 2)
    except Exception as error:
        if "conflict" not in str(error).lower():
            raise
        return False


def missing_of(platform: Platform, query: str) -> int:
    code, findings = platform.reconcile()
    found = sum(each["last"] - each["first"] + 1 for each in findings[query]["missing"])
    assert bool(code) == any(each["missing"] or each["doubles"] for each in findings.values())
    return found


def test_rows_that_are_gone_are_read_again(damaged: Platform) -> None:
    prefix = posted(damaged, 20)
    lose_rows(damaged, prefix)
    assert missing_of(damaged, LAKE) == 2
    code, findings = damaged.reconcile("--repair")
    assert code == 0, findings
    assert findings[LAKE]["repairs"] == ["2 repaired"]
    damaged.wait_in_lake(prefix, 20)
    # The lake goes on.
    more = posted(damaged, 5)
    assert set(damaged.rows(more).values()) == set(damaged.rows(prefix).values()) == {1}


def test_records_that_are_gone_are_derived_again_and_reach_the_lake(damaged: Platform) -> None:
    prefix = posted(damaged, 20)
    damaged.settled_flow()
    ends = Cluster(damaged.settings.bootstrap).end_offsets("events_avro")
    admin = AdminClient({"bootstrap.servers": damaged.settings.bootstrap})
    places = [TopicPartition("events_avro", number, end) for number, end in ends.items()]
    for future in admin.delete_records(places).values():
        future.result(30)
    lose_rows(damaged, prefix)
    # A query in real-time mode records its position at the end of a batch.
    wait_for(lambda: missing_of(damaged, AVRO) == 2, "the query has passed the two", seconds=150)
    code, findings = damaged.reconcile("--repair")
    assert code == 0, findings
    assert findings[AVRO]["repairs"] == ["2 repaired"]
    damaged.wait_in_lake(prefix, 20)
    assert set(damaged.rows(prefix).values()) == {1}
    damaged.settled_flow()
    code, findings = damaged.reconcile("--full")
    assert code == 0, findings
