"""One module a process of `headrace up`; each has `run(settings) -> int`, which serves until it is told to stop."""
