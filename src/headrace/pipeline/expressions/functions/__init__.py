"""ksqlDB's functions as data: what they take, what they give, and the Spark SQL that gives it."""
