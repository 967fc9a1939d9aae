"""The tail of a table: the records of its topic that are not in the lake yet, as rows of the table.

Start with `tails.py`. Invariant: whatever is committed, restored, recreated or lost, the files of a version
and its tail have each record of the topic at most once, and every row of the tail is one that the lake will
have. What the tail cannot be certain of it leaves out, and says so.

Never: writing to a topic or a table; pyspark.
"""
