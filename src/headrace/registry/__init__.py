"""The schema registry: subjects, versions and schemas, kept in the compacted topic `_schemas`.

Never: HTTP.
"""
