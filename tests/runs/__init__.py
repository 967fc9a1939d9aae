"""Tests of `headrace.pipeline.runs`: commits, where a run begins, and reading the sinks back."""
