"""Statements to plans, by rules in `rule_*.py`; `planning.py` is the entry point."""
