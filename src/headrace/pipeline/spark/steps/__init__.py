"""The steps of a plan on Spark, one file per step (`building.py` walks the tree, `sink.py` ends it)."""
