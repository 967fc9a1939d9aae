"""The rules, one per file. Their order is that of the report: losses come first."""

from __future__ import annotations

from headrace.testing.history.anomalies import Rule
from headrace.testing.history.rules import (
    aborted_reads,
    changed_offsets,
    commit_regressions,
    duplicates,
    early_reads,
    hung_transactions,
    lost_writes,
    moved_writes,
    nonmonotonic_polls,
    partial_transactions,
    phantom_reads,
    poll_skips,
    refused_writes,
    reorderings,
)

RULES: tuple[Rule, ...] = (
    lost_writes.RULE,
    duplicates.RULE,
    reorderings.RULE,
    changed_offsets.RULE,
    moved_writes.RULE,
    aborted_reads.RULE,
    early_reads.RULE,
    partial_transactions.RULE,
    hung_transactions.RULE,
    phantom_reads.RULE,
    refused_writes.RULE,
    nonmonotonic_polls.RULE,
    poll_skips.RULE,
    commit_regressions.RULE,
)
