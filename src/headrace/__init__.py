"""Headrace: an event streaming platform in one Python package.

`README.md` beside this file has one line for each folder.
"""

__version__ = "0.1.0"
