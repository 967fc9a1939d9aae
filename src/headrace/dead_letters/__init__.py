"""Dead letters as a user meets them: listing them, repairing them, sending them back.

Never: writing dead letters; `pipeline/spark/` does that.

Who writes them is `pipeline/spark/`; what they carry stands in `lake/dead_letter_headers.py`.
"""
