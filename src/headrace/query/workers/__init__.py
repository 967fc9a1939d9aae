"""Processes that run questions: each has a DuckDB of its own and hard limits, and can be killed at any moment.

Never: HTTP, the log, deciding who comes next; `query/desk.py` does that.
"""
