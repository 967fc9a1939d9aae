"""The log of one partition: its parts, and appending, reading, rolling, flushing, recovery."""
