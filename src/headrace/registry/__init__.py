"""The schema registry without HTTP: subjects, versions, schemas, kept in the compacted topic `_schemas`."""
