"""Runs of queries: what a run leaves behind in the log, and how the next one goes on from there.

Never: Spark.
"""
