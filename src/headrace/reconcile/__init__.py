"""Compares what was accepted with what came out of it: finds what is missing or double, and names it.

Never: changing a topic or a table; what is to be repaired is handed to the pipeline process.
"""
