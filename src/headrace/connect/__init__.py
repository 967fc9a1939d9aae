"""Connectors. So far the generator of example events."""
