"""How a statement refers to more than a table as it is now: a table at a version, a topic, a table of the
statement language. Spelling and names only: what they stand for is found elsewhere. Pure.
"""
