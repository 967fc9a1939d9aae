"""Finding Java, fetching the pinned artifacts, and starting it so that it never outlives us."""
