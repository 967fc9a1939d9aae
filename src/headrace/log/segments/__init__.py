"""The segments of a log: their files of batches, their indexes, their order."""
