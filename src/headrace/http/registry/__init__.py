"""The HTTP API of Confluent's Schema Registry in front of `headrace.registry`."""
