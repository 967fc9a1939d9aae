"""Headrace: an event streaming platform in one Python package.

`README.md` next to this file has one line for each folder.
"""

__version__ = "0.1.0"
