"""Talks to the log: topics, readers and writers, over Kafka's protocol."""
