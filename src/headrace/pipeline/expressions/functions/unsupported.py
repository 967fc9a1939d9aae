"""Functions of ksqlDB that Spark SQL cannot express, and why. The rules reject them by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType({})
