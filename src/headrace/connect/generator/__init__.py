"""Sources that make events up: the same seed gives the same events."""
