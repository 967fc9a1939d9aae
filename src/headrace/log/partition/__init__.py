"""The log of one partition: appending, reading, rolling, flushing, recovery."""
