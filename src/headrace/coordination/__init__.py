"""Consumer groups, committed offsets and transactions as pure state machines: decisions as values, records as
the only truth.

Never: I/O, clocks, locks.
"""
