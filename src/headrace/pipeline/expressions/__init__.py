"""Expressions: types, functions, and their two forms, Spark SQL and Python."""
