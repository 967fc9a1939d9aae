"""Ways to make a good value of a bad one. Each takes a dead letter and gives the new value.

`EditFailed` says that one letter could not be edited; others may be. A HeadraceError ends the whole repair:
an editor that fails is a user who wants to stop. Values are bytes, and what is not touched stays as it is.
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


class EditFailed(Exception):  # noqa: N818 - says what happened to a letter, ends nothing
    """Why this letter could not be edited."""


def set_value(file: Path) -> Edit:
    """The value is what the file holds. Raises HeadraceError bad_request where it cannot be read."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise HeadraceError(
            "bad_request",
            f"The file {file} with the new value cannot be read: {error.strerror}.",
            remedy="--set-value wants a file that holds the value alone.",
        ) from error
    return lambda _letter: content


def replace(old: str, new: str) -> Edit:
    """Every `old` in the value becomes `new`."""
    if not old:
        raise HeadraceError(
            "bad_request", "--replace has nothing to look for.", remedy="Write --replace OLD NEW."
        )

    def edit(letter: DeadLetter) -> bytes | None:
        return None if letter.value is None else letter.value.replace(old.encode(), new.encode())

    return edit


def command(text: str) -> Edit:
    """What the shell's command makes of the value: on standard input it has it, on standard output it gives
    the new one.
    """

    def edit(letter: DeadLetter) -> bytes:
        done = subprocess.run(
            ["/bin/sh", "-c", text], input=letter.value or b"", capture_output=True, check=False
        )
        if done.returncode != 0:
            complaint = done.stderr.decode("utf-8", errors="replace").strip()[-_LONGEST_COMPLAINT:]
            raise EditFailed(f"`{text}` ended with code {done.returncode}: {complaint or 'it said nothing'}")
        return done.stdout

    return edit


def editor(environ: Mapping[str, str] = os.environ) -> Edit:
    """The user's editor, on a file with the value. Raises HeadraceError bad_request where none is set."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if not chosen:
        raise HeadraceError(
            "bad_request",
            "There is no editor: neither VISUAL nor EDITOR is set.",
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
            remedy="Set VISUAL or EDITOR to one that is there.",
        ) from error
    if code != 0:
        raise HeadraceError(
            "bad_request",
            f"The editor `{chosen}` ended with code {code}. Nothing was sent.",
            remedy="Leave it in the usual way to send what you have edited.",
        )


def _edited(before: bytes | None, after: bytes) -> bytes | None:
    """Editors end the last line; that is no part of a value that had no such end."""
    if after.endswith(b"\n") and not (before or b"").endswith(b"\n"):
        after = after[:-1]
    return None if before is None and not after else after
