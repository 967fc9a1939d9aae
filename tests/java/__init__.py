"""Tests of finding Java and fetching what runs on it."""
