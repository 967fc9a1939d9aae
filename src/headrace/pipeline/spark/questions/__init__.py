"""Big questions in SQL, run by Spark beside the queries of the platform."""
