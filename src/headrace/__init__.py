"""Headrace: an event streaming platform in one Python package.

The folders stand in the order in which data flows; `README.md` beside this file has one line for each.
"""

__version__ = "0.1.0"
