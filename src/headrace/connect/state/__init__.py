"""What is known of connectors: wishes, statuses and offsets, in compacted topics or, standalone, in memory
and a file.
"""
