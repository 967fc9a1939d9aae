"""The names of the columns of statistics: these, with the number of the table's column behind them."""

from __future__ import annotations

from typing import Final

SMALLEST: Final = "smallest_"
LARGEST: Final = "largest_"
