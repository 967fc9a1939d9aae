"""The Kafka protocol without I/O: framing, headers, record batches, and the messages themselves."""
