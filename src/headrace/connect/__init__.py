"""Connectors: what they are, their state in the log, the worker that runs them, and those that come with it.

Never: HTTP.
"""
