"""Queries that keep state: each row of a batch once in the sink, and checkpoints that heal.

Never: rules of single steps.
"""
