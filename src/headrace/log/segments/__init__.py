"""One segment: its file of batches and its indexes."""
