"""The HTTP doors, one folder each.

Never: rules that belong to the folder behind the door.
"""
