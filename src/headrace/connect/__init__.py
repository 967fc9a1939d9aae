"""Connectors: what brings events in by itself, and what takes them out. So far the generator of example
events.
"""
