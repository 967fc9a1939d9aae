"""Ways to edit the value of a dead letter. Each takes a dead letter and returns the new value.

`EditFailed` means that this letter could not be edited; others may be. A HeadraceError ends the whole repair:
if the editor fails, the user wants to stop. Values are bytes; what an edit does not touch stays as it is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.dead_letters.entries import DeadLetter

Edit = Callable[[DeadLetter], bytes | None]

_LONGEST_COMPLAINT: Final = 200


class EditFailed(Exception):  # noqa: N818 - concerns one letter and ends nothing
    """Why this letter could not be edited."""


def set_value(file: Path) -> Edit:
    """The value becomes the content of the file. Raises bad_request if the file cannot be read."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise HeadraceError(
            "bad_request",
            f"The file {file} with the new value cannot be read: {error.strerror}.",
            remedy="--set-value takes a file that contains only the value.",
        ) from error
    return lambda _letter: content


def replace(old: str, new: str) -> Edit:
    """Every `old` in the value becomes `new`."""
    if not old:
        raise HeadraceError(
            "bad_request", "--replace has nothing to search for.", remedy="Write --replace OLD NEW."
        )

    def edit(letter: DeadLetter) -> bytes | None:
        return None if letter.value is None else letter.value.replace(old.encode(), new.encode())

    return edit


def command(text: str) -> Edit:
    """The value becomes the output of a shell command that reads the old one on standard input."""

    def edit(letter: DeadLetter) -> bytes:
        done = subprocess.run(
            ["/bin/sh", "-c", text], input=letter.value or b"", capture_output=True, check=False
        )
        if done.returncode != 0:
            complaint = done.stderr.decode("utf-8", errors="replace").strip()[-_LONGEST_COMPLAINT:]
            raise EditFailed(f"`{text}` exited with code {done.returncode}: {complaint or 'no error output'}")
        return done.stdout

    return edit


def editor(environ: Mapping[str, str] = os.environ) -> Edit:
    """Open the value in the user's editor. Raises bad_request if no editor is set."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if not chosen:
        raise HeadraceError(
            "bad_request",
            "No editor is set: neither VISUAL nor EDITOR has a value.",
            remedy="Set one, for example EDITOR=nano, or use --set-value, --replace or --command.",
        )

    def edit(letter: DeadLetter) -> bytes | None:
        with tempfile.TemporaryDirectory(prefix="headrace-dlq-") as folder:
            file = Path(folder) / f"{letter.topic}-{letter.at.partition}-{letter.at.offset}.txt"
            file.write_bytes(letter.value or b"")
            _open_editor(chosen, file)
            return _edited(letter.value, file.read_bytes())

    return edit


def _open_editor(chosen: str, file: Path) -> None:
    try:
        code = subprocess.run([*shlex.split(chosen), str(file)], check=False).returncode
    except OSError as error:
        raise HeadraceError(
            "bad_request",
            f"The editor `{chosen}` cannot be started: {error.strerror}. Nothing was sent.",
            remedy="Set VISUAL or EDITOR to an installed editor.",
        ) from error
    if code != 0:
        raise HeadraceError(
            "bad_request",
            f"The editor `{chosen}` exited with code {code}. Nothing was sent.",
            remedy="Quit the editor without an error to send what you have edited.",
        )


def _edited(before: bytes | None, after: bytes) -> bytes | None:
    """Remove the newline that editors add at the end, unless the value had one before."""
    if after.endswith(b"\n") and not (before or b"").endswith(b"\n"):
        after = after[:-1]
    return None if before is None and not after else after
