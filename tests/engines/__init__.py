"""Tests of the log engines."""
