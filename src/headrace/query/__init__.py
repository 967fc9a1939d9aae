"""Answers questions about the platform's data: SQL over the lake, messages, counts, latencies.

Never: HTTP, writing anything but its own counts.
"""
