"""Druid's SQL: its statements as DuckDB's, its catalogue of tables, and its result formats.

Never: HTTP, DuckDB, reading a table.
"""
