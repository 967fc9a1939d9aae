"""ksqlDB's language: text to tree, and back."""
