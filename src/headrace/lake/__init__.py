"""The lake's rules: where a row comes from, lanes and marks, the table's layout. Knows no Spark."""
