"""The formats of keys and values: bytes to columns and back, one file a format (`choosing.py` picks)."""
