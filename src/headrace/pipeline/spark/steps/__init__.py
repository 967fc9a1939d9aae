"""The steps of a plan on Spark, one file a step (`building.py` walks the tree, `sink.py` ends it)."""
