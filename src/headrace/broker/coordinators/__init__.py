"""Runs the machines of `coordination/`: their records go to internal topics, their timers to the event loop.

`shard.py` is the runtime: it carries out a decision. `shards.py` has the shards of one internal topic and
loads them. `groups.py` and `transactions.py` are what API files talk to.
"""
