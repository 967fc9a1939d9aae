"""Spark's plans of queries, which the pipeline process writes to the topic `_spark_plans`.

EXPLAIN reads the topic from the beginning: it is compacted and has one record for each query.
"""

from __future__ import annotations

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.pipeline.catalogue.status import PLANS_TOPIC, SparkPlan


def spark_plan_of(cluster: Cluster, query_id: str) -> SparkPlan | None:
    """None if the pipeline process has not started it yet. Raises log_unavailable."""
    ends = cluster.end_offsets(PLANS_TOPIC)
    stretches = {number: (0, end) for number, end in ends.items()}
    newest: bytes | None = None
    for record in records_between(cluster.bootstrap, PLANS_TOPIC, stretches):
        if record.key() == query_id.encode():
            newest = record.value()
    return None if newest is None else msgspec.json.decode(newest, type=SparkPlan)
