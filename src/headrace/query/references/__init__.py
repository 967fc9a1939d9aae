"""How a statement refers to more than a table as it is now: versions, and clauses that are ours.

Never: what a reference stands for.
"""
