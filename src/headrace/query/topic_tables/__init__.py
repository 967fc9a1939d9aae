"""Topics as tables in SQL: `topic."events"`, a row for each committed record, read when a question asks.

The query process plans (`planning.py`: which topic, how far, which schemas), a worker reads (`dataset.py`).
"""
