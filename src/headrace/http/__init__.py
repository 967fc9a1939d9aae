"""The HTTP doors of the platform, one folder each. The rules belong to the folder behind the door."""
