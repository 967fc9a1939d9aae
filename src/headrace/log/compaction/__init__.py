"""Compaction by key: which log is next, what survives, and swapping cleaned segments in."""
