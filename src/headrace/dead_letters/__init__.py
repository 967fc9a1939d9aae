"""Dead letters as a user meets them: looking at them, and sending them back repaired.

Who writes them is `pipeline/spark/`; what they carry stands in `lake/dead_letter_headers.py`.
"""
