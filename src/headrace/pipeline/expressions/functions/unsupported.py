"""Functions of ksqlDB that Spark SQL cannot give, and why: the rules refuse them by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType({})
