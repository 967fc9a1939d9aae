"""One module a process of `headrace up`; each has `run(settings) -> int`, serving until told to stop."""
