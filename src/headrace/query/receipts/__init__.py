"""Receipts: what has become of an event, and waiting until it can be seen.

A receipt is the place of an event in the log. From there its way is followed by positions: through the
statements that read its topic (`ways.py`, `tracing.py`), by the coordinates in the headers of what they write
(`origins.py`), into the tables of connectors (`tables.py`). `watching.py` does that for everybody who waits.
"""
