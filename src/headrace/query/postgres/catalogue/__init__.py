"""PostgreSQL's catalogue of the lake: `pg_catalog`, `information_schema` and their functions

A question about the catalogue becomes a question with the relations in it as values, which the engine
answers like any other, under the same limits. Never: an answer of its own.
"""
