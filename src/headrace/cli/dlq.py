"""`headrace dlq`: lists and shows dead letters, and sends them back repaired.

Invariant: a command imports what it needs when it runs, as in `app.py`. Contains no logic: that is in
`dead_letters/`; the output is in `dlq_output.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.setting_flags import with_settings
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

if TYPE_CHECKING:
    from headrace.dead_letters.edits import Edit

app = typer.Typer(
    help="List, show and repair dead letters: records that a query could not read.", no_args_is_help=True
)

_PATIENCE_SECONDS: Final = 5.0
_LOG: Final = ("host", "kafka_port", "engine", "bootstrap_servers")
_SOME_FAILED: Final = 1

_Topic = Annotated[str, typer.Argument(help="A dead-letter topic, such as events_dlq.", show_default=False)]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
@with_settings(*_LOG)
def list_(
    settings: Settings,
    topic: Annotated[
        str | None, typer.Argument(help="Show the entries of this topic.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="How many entries to show, newest first.", min=1)] = 100,
    as_json: _AsJson = False,
) -> None:
    """List the dead-letter topics with their counts, or the entries of one topic."""
    from headrace.cli.dlq_output import print_entries, print_topics  # noqa: PLC0415
    from headrace.client.cluster import Cluster  # noqa: PLC0415
    from headrace.dead_letters.notes import read_notes  # noqa: PLC0415
    from headrace.dead_letters.topics import DeadLetterTopics  # noqa: PLC0415

    cluster = Cluster(settings.bootstrap, timeout_seconds=_PATIENCE_SECONDS)
    topics = DeadLetterTopics(cluster)
    if topic is None:
        print_topics(topics.all(), read_notes(cluster), as_json=as_json)
        return
    found = topics.named(topic)
    entries = topics.newest(found, limit)
    print_entries(entries, read_notes(cluster), as_json=as_json)
    if found.entries > limit:
        print(f"the newest {limit} of {found.entries} entries; --limit shows more", file=sys.stderr)


@app.command()
@with_settings(*_LOG)
def show(
    settings: Settings,
    topic: _Topic,
    at: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Which one.", show_default=False)],
    as_json: _AsJson = False,
    only_value: Annotated[
        bool, typer.Option("--value", help="Print only the value, byte for byte, as --set-value takes it.")
    ] = False,
) -> None:
    """Show one dead letter in full."""
    from headrace.cli.dlq_output import print_entry  # noqa: PLC0415
    from headrace.client.cluster import Cluster  # noqa: PLC0415
    from headrace.dead_letters.entries import parse_at  # noqa: PLC0415
    from headrace.dead_letters.notes import read_notes  # noqa: PLC0415
    from headrace.dead_letters.topics import DeadLetterTopics  # noqa: PLC0415

    cluster = Cluster(settings.bootstrap, timeout_seconds=_PATIENCE_SECONDS)
    topics = DeadLetterTopics(cluster)
    letter = topics.entry(topics.named(topic), parse_at(at))
    if only_value:
        sys.stdout.buffer.write(letter.value or b"")
        sys.stdout.buffer.flush()
        return
    print_entry(letter, read_notes(cluster), as_json=as_json)


@app.command()
@with_settings(*_LOG)
def repair(
    settings: Settings,
    *,
    topic: _Topic,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION:OFFSET", help="Only this dead letter; can be repeated."),
    ] = None,
    set_value: Annotated[
        Path | None, typer.Option(help="Take the new value from this file; for one dead letter.")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Edit each value in $VISUAL or $EDITOR.")] = False,
    replace: Annotated[
        tuple[str, str] | None, typer.Option(metavar="OLD NEW", help="Replace this text in each value.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="A shell command that reads each value on stdin and writes the new one to stdout."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be sent.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Include those already repaired.")] = False,
) -> None:
    """Send dead letters back to their source topic, edited or unchanged. Exit code 1: some failed."""
    from headrace.cli.dlq_output import print_outcomes  # noqa: PLC0415
    from headrace.client.cluster import Cluster  # noqa: PLC0415
    from headrace.client.message_sizes import derived_message_bytes  # noqa: PLC0415
    from headrace.dead_letters.entries import parse_at  # noqa: PLC0415
    from headrace.dead_letters.repairing import Repair  # noqa: PLC0415

    places = [parse_at(text) for text in at or ()]
    if set_value is not None and len(places) != 1:
        raise HeadraceError(
            "bad_request",
            f"--set-value sets the value of one dead letter, but {len(places) or 'none'} are given.",
            remedy="Name one with --at PARTITION:OFFSET.",
        )
    run = Repair(
        Cluster(settings.bootstrap, timeout_seconds=_PATIENCE_SECONDS),
        largest_message=derived_message_bytes(settings),
        edit=_chosen(set_value=set_value, edit=edit, replace=replace, command=command),
        is_dry_run=dry_run,
        again=again,
    )
    if not print_outcomes(run.run(topic, places, edits_first=edit)):
        raise typer.Exit(_SOME_FAILED)


def _chosen(
    *, set_value: Path | None, edit: bool, replace: tuple[str, str] | None, command: str | None
) -> Edit | None:
    from headrace.dead_letters import edits  # noqa: PLC0415

    given = {
        "--set-value": set_value is not None,
        "--edit": edit,
        "--replace": replace is not None,
        "--command": command is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise HeadraceError(
            "bad_request",
            f"{' and '.join(names)} are given together, but a value can be edited in only one way.",
            remedy="Use one of them.",
        )
    if set_value is not None:
        return edits.set_value(set_value)
    if replace is not None:
        return edits.replace(*replace)
    if command is not None:
        return edits.command(command)
    return edits.editor() if edit else None
