"""The Kafka protocol without I/O: framing, headers, record batches, Produce and Fetch by hand, `kio` for the
rest.

Never: sockets, clocks, files.
"""
