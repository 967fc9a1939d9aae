"""Which features of Delta a table may have."""

from __future__ import annotations

import json

import pytest

from headrace.lake.protocol import impossible_features


@pytest.mark.parametrize(
    ("version", "features", "impossible"),
    [
        (2, None, []),
        (5, None, []),
        (6, None, ["identityColumns"]),
        (7, ["appendOnly", "invariants", "deletionVectors", "columnMapping"], []),
        (7, ["rowTracking", "domainMetadata", "inCommitTimestamp"], ["inCommitTimestamp", "rowTracking"]),
        (7, ["v2Checkpoint", "a feature of next year"], ["a feature of next year", "v2Checkpoint"]),
        (7, [], []),
        (7, None, []),
        (8, ["appendOnly"], ["writer version 8"]),
        (8, None, ["writer version 8"]),
    ],
)
def test_only_features_that_ask_nothing_of_a_commit_are_possible(
    version: int, features: list[str] | None, impossible: list[str]
) -> None:
    action = {"minReaderVersion": 1, "minWriterVersion": version}
    named = {} if features is None else {"writerFeatures": features}
    assert impossible_features(json.dumps({"protocol": action | named})) == impossible
