"""Rollups: small tables of counts, sums and extremes per group, each kept from the commits of one table.

Start with `definition.py`. Invariant: the rows of a rollup and the version of the table that they stand for
are one commit, so whatever crashes, a rollup is right for the version it names or is made anew.

Never: pyspark; writing to the table that a rollup is made of.
"""
