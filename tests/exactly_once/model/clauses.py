"""The clauses of the rule, each with what it says. A mutant of the model is the rule without one of them."""

from __future__ import annotations

from enum import Enum


class Clause(Enum):
    OFFSETS_ARE_NEVER_USED_AGAIN = "after a power cut a log goes on behind its reservation"
    PREDECESSOR_IS_SILENT = "a run begins when all that its predecessor sent has landed or is given up"
    SKIP_WHAT_IS_WRITTEN = "a run skips what it finds in its sinks"
    SKIP_EXACTLY = "it skips what it finds, not everything up to the highest"
    ONLY_ITS_OWN = "it looks at its own rows only, not at those of other queries"
    READ_UNCOMMITTED = "it reads its sinks to their ends, open transactions of others or not"
    RESUME_AT_COMMIT = "a run resumes at the positions of its commit, not where its predecessor stood"
    FROM_BEFORE_BATCH = "`sinks_from` of a commit was taken before its batch had finished"
    TO_AFTER_BATCH = "`sinks_to` of a commit was taken after its batch had finished"
    KEEP_FROM_UNTIL_PASSED = "`sinks_from` stays until the positions have passed what earlier runs wrote"
    WITNESS = "a commit counts only if its sinks still reach `sinks_to`"
    GAPS_WITHIN_AN_EPOCH = (
        "what stood in a gap was compacted away if the gap is within a leader epoch, else lost"
    )
    CUT_OFF_NEWER = "commits newer than the one that was resumed from are forgotten"
    SAME_SINKS = "a commit counts only for the sinks (topic ids) it was made with"
    SAME_SOURCES = "a commit counts only for the sources (topic ids) it was made with"
    IDS_OF_THE_START = "the ids in a commit are those of the run's start"
    NEW_PARTITIONS_FROM_BEGINNING = "partitions that a commit does not know are read from their beginning"
    TABLES_KEEP_ORDER = "in a table everything behind the first missing row is written again"
    TABLES_LOOK_AT_THE_ORDER = "what stands in a table's topic behind a newer row counts as missing"
    SYNCED_BEFORE_READ = "a derived topic that a query reads, or a query with state writes, loses nothing"
    STATE_REPEATS_RANGES = "a stateful query repeats unfinished batches with the same ranges"
    STATE_SKIPS_WRITTEN = "a repeated batch skips the rows that are there"
    STATE_REWINDS = "a stateful query whose sink or source was cut goes back to a state before the cut"
    LAKE_POSITIONS_WITH_ROWS = "the lake commits positions and rows in one transaction"
    LAKE_LOOKS_UP_AFTER_CUT = "after its topic was cut or re-created the lake looks rows up by identity"
    LAKE_DEAD_LETTERS_FIRST = "the lake sends dead letters before it commits, and a restart skips those"
