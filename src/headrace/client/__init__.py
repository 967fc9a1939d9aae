"""Talks to the log over Kafka's protocol, for everything above: cluster, topics, readers, writers.

Never: rules of any part.
"""
