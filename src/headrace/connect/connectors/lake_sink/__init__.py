"""The lake sink: what its connectors may say, and the `LakeSink` that a configuration asks for.

`plugin.py` makes its two plugins: Confluent's S3 sink by its class name, and ours. `parsing.py` turns a
configuration into the value that the pipeline runs. Nothing here reads a record or writes a file.
"""
