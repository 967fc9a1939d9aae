"""The web console: server-rendered pages, live over server-sent events, with their assets.

Never: reaching around the public APIs.
"""
