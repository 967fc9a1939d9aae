"""How the JVMs of tests run: for a short time, on little data.

The archives are Java's (application class data sharing): the classes that Spark or Apache Kafka loads,
verified and laid out as a JVM needs them, so that it starts with half of the processor time. A JVM that an
archive does not fit (another Java, other jars) goes on without. `class_archives.py` makes them; without them
tests take longer, and nothing else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from headrace.engines import apache_kafka

ARCHIVES: Final = Path(sys.prefix) / "class-archives"
SPARK_ARCHIVE: Final = ARCHIVES / "spark.jsa"
KAFKA_ARCHIVE: Final = ARCHIVES / "kafka.jsa"
# The JVM's second compiler would take a third of the processor time and never pay for itself.
_FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1"
# With the first compiler only, the JVM also has only a fifth of the space for compiled code, and Spark ends
# when that is full.
_CODE_CACHE: Final = "-XX:ReservedCodeCacheSize=240m"
_FLAGS_OF_KAFKA: Final = apache_kafka.JVM_FLAGS


def use(*, spark: tuple[str, ...] = (), kafka: tuple[str, ...] = ()) -> None:
    """All JVMs of Spark and Apache Kafka that this process and its children start have these flags, too."""
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((_FIRST_COMPILER, _CODE_CACHE, *spark))
    apache_kafka.JVM_FLAGS = (*_FLAGS_OF_KAFKA, _FIRST_COMPILER, *kafka)


def sharing(archive: Path) -> tuple[str, ...]:
    """An archive that does not fit is not worth a line on the standard output."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off") if archive.exists() else ()


def making(archive: Path) -> tuple[str, ...]:
    """When the JVM ends by itself, it writes the archive."""
    return (f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds*=off")
