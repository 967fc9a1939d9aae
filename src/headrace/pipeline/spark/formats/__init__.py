"""The formats of keys and values: bytes to columns and back, one file per format (`choosing.py` selects)."""
