"""Tables in buckets, for questions: following their logs, and a bounded local cache of their files' bytes.

Never: writing to a bucket, pyspark, giving credentials to anybody.
"""
