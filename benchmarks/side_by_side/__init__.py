"""The embedded broker and Apache Kafka side by side, for the files above: processes, rounds, verdicts.

`engines` starts the two; `perf_tools`, `plain_fetch`, `plain_commit`, `c_consumer` and `waiting_clients` are
their clients; `forgetful_broker` and `prepared_fetch` are brokers that do as little as possible; `comparison`
runs the rounds; `processes` reads what the kernel knows about a process; `profiling` shows where the embedded
broker spends its time; `options` is the common command line.
"""
