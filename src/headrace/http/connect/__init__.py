"""Kafka Connect's REST API in front of `headrace.connect`."""
