"""Compaction by key: choosing the next log, deciding what survives, writing cleaned segments."""
