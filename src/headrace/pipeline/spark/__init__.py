"""Runs plans on Spark; the only folder that imports pyspark.

Never: passing a record through Python.
"""
