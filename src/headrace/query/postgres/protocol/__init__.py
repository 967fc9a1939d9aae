"""The protocol without I/O: messages in, messages out, errors, types and the formats of their values

Never: sockets, clocks, SQL.
"""
