"""Questions that Spark answers: DuckDB's SQL as Spark's, and the way to the pipeline process and back."""
