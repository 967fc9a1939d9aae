"""What has become of an event: its way through statements into tables, by positions and headers.

A receipt is the place of an event in the log. From there its way is followed by positions: through the
statements that read its topic (`query_passage.py`), by the coordinates in the headers of what they write
(`origins.py`), into the tables of connectors (`table_passage.py`). `watching.py` does that for everybody who
waits.

Never: writing to a topic or a table; pyspark.
"""
