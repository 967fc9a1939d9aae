"""The rules of the lake: source coordinates, positions of topics, the layout and the log of a table.

Never: pyspark.
"""
