"""Tables of the statement language in SQL: `"table"."VIEWS"`, the newest row of each key.

The query process plans (`planning.py`: which table, and how far its topic goes), a worker reads its topic.
"""
