"""The HTTP door to `query/`: SQL, the flow, latencies, topics and their messages."""
