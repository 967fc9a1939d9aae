"""Runs the machines of `coordination/`: their records go to internal topics, their timers to the event loop.

`shard.py` is the runtime that carries out decisions. `shards.py` owns the shards of one internal topic and
loads them. API files call `groups.py` and `transactions.py`.
"""
