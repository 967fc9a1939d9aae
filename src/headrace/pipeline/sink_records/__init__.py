"""How a sink turns records into rows: what the pipeline's Spark and SQL's tails have in common.

As far as it can be told without running anything: the pipeline does it with Spark, SQL with single records
that are not in the lake yet.

Never: pyspark, a file, a topic.
"""
