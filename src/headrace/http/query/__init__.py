"""The HTTP API of `query/`: SQL, the flow, latencies, topics and their messages."""
