"""What must be on the machine before the platform starts: Java and the Java artifacts.

Downloaded here, in the foreground, where somebody is watching: a progress bar in a log file helps nobody.
Invariant: after `prepare` the processes have what they need without the network. Never starts anything.
"""

from __future__ import annotations

from headrace.core.settings import Settings
from headrace.java.artifacts import SPARK_GROUPS, Artifacts
from headrace.java.runtime import find_java


def prepare(settings: Settings, *, progress: bool = False) -> None:
    """Find Java and download the artifacts that these settings need, or raise with the remedy."""
    find_java(settings.java_home)
    artifacts = Artifacts(settings.cache_dir)
    if settings.engine == "kafka":
        artifacts.jars("kafka", progress=progress)
    for group in SPARK_GROUPS:
        artifacts.jars(group, progress=progress)
