"""The connectors that come with the worker, one file each; `builtin.py` lists them."""
