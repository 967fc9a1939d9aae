"""The rules of the lake: source coordinates, lanes and marks, the layout of a table.

Never: pyspark.
"""
