"""Processes that run questions: each has its own DuckDB and hard limits, and can be killed at any moment.

Never: HTTP, deciding whose turn it is or what may be read.
"""
