"""Tests of what Spark does with the records of a sink into the lake."""
