"""Druid's SQL API: what pydruid and the BI tools on it ask.

Never: translating SQL, running it.
"""
