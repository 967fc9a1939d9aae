"""Partition logs on disk: segments, indexes, recovery, producer state, retention, compaction.

Never: protocol messages, sockets, the event loop.
"""
