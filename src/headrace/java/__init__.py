"""Java as a guest: finding it, fetching what runs on it, and starting it so that it never outlives us."""
