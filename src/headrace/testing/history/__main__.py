"""`python -m headrace.testing.history FILES`: the report on these files.

Exits with 1 if there are anomalies, with 2 if the files are not a history.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace.testing.history.files import HistoryError, read_history
from headrace.testing.history.report import check


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        report = check(read_history(arguments))
    except (HistoryError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report)
    return 1 if report.anomalies else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
