"""Connectors. So far the generator of example events, and the folders that file connectors may use."""
