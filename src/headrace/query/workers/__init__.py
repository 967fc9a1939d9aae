"""Processes that run questions: each has its own DuckDB and hard limits, and can be killed at any moment.

Never: HTTP, the log, deciding whose turn it is.
"""
