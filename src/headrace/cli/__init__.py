"""The `headrace` command: thin commands over the folders below.

Never: logic.
"""
