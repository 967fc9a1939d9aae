"""How Spark runs a query, as the pipeline process tells it in the topic `_spark_plans`.

Read when somebody asks (EXPLAIN), from the beginning: the topic is compacted and has a record for each query.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.topic_reading import TopicReader
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import PLANS_TOPIC, SparkPlan

_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.2


def spark_plan_of(cluster: Cluster, query_id: str) -> SparkPlan | None:
    """None if the pipeline process has not started it yet. Raises log_unavailable."""
    if cluster.topic(PLANS_TOPIC) is None:
        return None
    end = cluster.end_offsets(PLANS_TOPIC)[0]
    reader = TopicReader(cluster.bootstrap, PLANS_TOPIC, 1, from_beginning=True)
    newest: bytes | None = None
    deadline = time.monotonic() + _SECONDS
    try:
        while reader.read_to.get(0, 0) < end:
            if time.monotonic() > deadline:
                raise HeadraceError(
                    "log_unavailable", f"The topic {PLANS_TOPIC} could not be read within {_SECONDS:g} s."
                )
            for record in reader.poll(_POLL_SECONDS):
                if record.key() == query_id.encode():
                    newest = record.value()
    finally:
        reader.close()
    return None if newest is None else msgspec.json.decode(newest, type=SparkPlan)
