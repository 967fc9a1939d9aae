"""Runs plans on Spark. The only folder that imports pyspark; no record ever passes through Python."""
