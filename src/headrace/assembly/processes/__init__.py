"""The processes of `headrace up`, one module each: `run(settings) -> int` serves until told to stop."""
