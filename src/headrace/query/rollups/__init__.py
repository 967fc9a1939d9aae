"""Rollups in questions: which there are for a version of a table, and questions rewritten to read them.

Invariant: a question that is answered with a rollup has the answer that the table's rows give. What is not
certain to be the same is answered the plain way.

Never: writing a rollup (`lake/rollups/` does).
"""
