"""Statements to plans: names, types, Spark SQL. `planning.py` is the door; the rules are `rule_*.py`."""
