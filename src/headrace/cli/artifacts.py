"""`headrace artifacts`: the Java artifacts that the platform uses, for use with other Java tools.

Invariant: stdout holds nothing but the result, so that `java -cp "$(headrace artifacts classpath kafka)" …`
works on the first run too; progress goes to stderr.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.core import settings
from headrace.java.artifacts import Artifacts

app = typer.Typer(help="The Java artifacts: print where they are, or download them.", no_args_is_help=True)


@app.command()
def classpath(
    group: Annotated[str, typer.Argument(help="`spark`, `s3` or `kafka`.", show_default=False)],
) -> None:
    """Print the class path of a group, downloading what is missing."""
    # Not with rich, which would wrap this one long line.
    print(_artifacts().classpath(group, progress=True))


@app.command()
def fetch(
    groups: Annotated[list[str] | None, typer.Argument(help="Groups to download; default: all.")] = None,
) -> None:
    """Download what is missing or damaged, so that the network is not needed later."""
    artifacts = _artifacts()
    for group in groups or artifacts.groups:
        jars = artifacts.jars(group, progress=True)
        print(f"{group}: {len(jars)} artifacts in {jars[0].parent}")


def _artifacts() -> Artifacts:
    return Artifacts(settings.load({}, environ=os.environ, folder=Path.cwd()).cache_dir)
