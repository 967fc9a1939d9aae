"""What is wrong with an expression, in RE2's words."""


class InvalidExpressionError(ValueError):
    """Not an expression of RE2; the message is the description that goes into Kafka's error message."""
