"""Which features of Delta a table may have so that our own commits are right (`delta_log.py`).

Delta writes the data files, and so takes care of constraints, generated columns and names of columns. The
commit is ours: it has an `add` action for each file and nothing else. Features that ask for more in each
commit (times, row numbers, counters) would make the table wrong for others without any error. Pure.
"""

from __future__ import annotations

import json
from typing import Final

# Features that ask nothing of a commit that only adds files.
_POSSIBLE: Final = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "domainMetadata"),
        "vacuumProtocolCheck",
    }
)
# From this version on, a table names its features. There is none above it yet.
_NAMES_FEATURES: Final = 7
# Up to this version the features are implied, and all possible; the next one has identity columns.
_LAST_POSSIBLE: Final = 5


def impossible_features(protocol: str) -> list[str]:
    """The features that our commits do not support; `protocol` is the action of Delta's log, as JSON."""
    action = json.loads(protocol)["protocol"]
    version = int(action["minWriterVersion"])
    if version > _NAMES_FEATURES:
        return [f"writer version {version}"]
    if version == _NAMES_FEATURES:
        return sorted(set(action.get("writerFeatures") or ()) - _POSSIBLE)
    return [] if version <= _LAST_POSSIBLE else ["identityColumns"]
