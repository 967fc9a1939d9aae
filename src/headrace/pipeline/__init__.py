"""Streaming SQL: from the text of a statement to a plan, and from the plan to a query that Spark runs."""
