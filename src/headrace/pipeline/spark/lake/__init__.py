"""Topics into tables of the lake: bytes to columns, transformations, folders, and the writer of the table.

Never: passing a record through Python.
"""
