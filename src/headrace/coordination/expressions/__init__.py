"""Regular expressions over topic names (KIP-848): RE2's syntax, matched in time linear in the name.

Apache Kafka matches with RE2/J. Python's `re` knows another syntax and backtracks: `(a*)*b` from a client
would stop the broker. Hence a small engine: `parsing.py` makes a program, `matching.py` runs it without
backtracking.
"""

from headrace.coordination.expressions.errors import InvalidExpressionError
from headrace.coordination.expressions.matching import Expression, compile_expression

__all__ = ["Expression", "InvalidExpressionError", "compile_expression"]
