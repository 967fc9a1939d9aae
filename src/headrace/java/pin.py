"""Updates pins: `python -m headrace.java.pin PATH` fills in the sizes and hashes of that `artifacts.toml`.

To change a version, edit its coordinate in the file (for a new Apache Kafka, take the runtime closure from
`mvn dependency:list`) and run this. Every jar is downloaded into an empty folder, not taken from a cache, so
that the new list matches what the repositories serve. Check the diff before committing it.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.java.download import DOWNLOAD_ERRORS, Repositories, sha256_of


def pin(text: str) -> str:
    """The list with the same coordinates and current sizes and hashes; comments at its top are kept."""
    header = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    groups = tomllib.loads(text)
    lines = [header]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(8) as pool:
        for group, entries in groups.items():
            lines.append(f"\n[{group}]\n")
            jars = pool.map(lambda coordinate: _download(coordinate, Path(scratch)), entries)
            for coordinate, jar in zip(entries, jars, strict=True):
                size, sha256 = jar.stat().st_size, sha256_of(jar)
                lines.append(f'"{coordinate}" = {{ size = {size}, sha256 = "{sha256}" }}\n')
    return "".join(lines)


def _download(coordinate: str, scratch: Path) -> Path:
    repositories = Repositories.of_this_machine()
    failures = []
    for name in repositories.remote:
        try:
            return repositories.download(coordinate, name, scratch / name)
        except DOWNLOAD_ERRORS as error:
            failures.append(error)
    raise ExceptionGroup(f"{coordinate} is in no repository", failures)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(pin(path.read_text(encoding="utf-8")), encoding="utf-8")
