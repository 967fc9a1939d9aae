"""How a sink turns records into rows, as far as it can be told without running anything: for the pipeline,
which does it with Spark, and for SQL, which does it with single records that are not in the lake yet.

Never: pyspark, a file, a topic.
"""
