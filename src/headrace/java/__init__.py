"""Finds Java, downloads the pinned artifacts, and starts JVMs that never outlive us."""
