"""What ends the way of columns: something that only the way of single rows can decide about.

A record that cannot be read, a value that does not fit its column, too many folders: none of them is an error
here. Rows one by one find the reason and send the record to the dead letters, or refuse it.
"""

from __future__ import annotations


class UnusualRecordsError(Exception):
    """The batch has to be written row by row; says why."""
