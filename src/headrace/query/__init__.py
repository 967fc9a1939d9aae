"""Answers about what the platform holds: SQL over the lake, messages, counts, latencies.

Never: HTTP, writing anything.
"""
