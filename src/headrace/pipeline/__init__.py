"""Streaming flows: what they are (`plan.py`, `flows.py`), and how Spark runs them (`spark/`)."""
