"""Streams, tables and queries: the catalogue, and the topics through which processes share it."""
