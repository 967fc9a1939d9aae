"""PostgreSQL's wire protocol in front of the lake: any PostgreSQL client asks the questions that `/sql` takes

Never: writing anything, looking at a file of the lake, running a question itself.
"""
