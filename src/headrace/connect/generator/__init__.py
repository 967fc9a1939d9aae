"""A source of made-up events; the same seed gives the same events."""
