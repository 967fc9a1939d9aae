"""The subcommands of `headrace`.

Invariant: a command imports what it needs when it runs, so that `headrace --help` is fast. Contains no logic:
a command is a call to a folder below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import headrace
from headrace.cli import artifacts, dlq, lake
from headrace.cli.broker_flags import with_broker_flags
from headrace.cli.setting_flags import with_loaded_settings, with_settings
from headrace.core.addresses import bracketed
from headrace.core.settings import LoadedSettings, Settings, describe

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    # A bug shows a plain traceback: short enough for a report, and without the values of variables.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(artifacts.app, name="artifacts")
app.add_typer(dlq.app, name="dlq")
app.add_typer(lake.app, name="lake")


def _version(asked: bool) -> None:
    if asked:
        print(f"headrace {headrace.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """An event streaming platform: HTTP events in; a Kafka log, a Delta lake, SQL and a console out."""


@app.command()
@with_settings()
def up(settings: Settings) -> None:
    """Start the whole platform and show its state, until Ctrl-C."""
    from headrace.cli.up import start_platform  # noqa: PLC0415 - for a quick --help

    start_platform(settings)


@app.command()
@with_settings()
def demo(
    settings: Settings,
    seconds: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds of traffic.", min=1, show_default=False),
    ] = None,
    rate: Annotated[int, typer.Option(help="Events per second.", min=1)] = 300,
) -> None:
    """Start the platform with example traffic, and show how far the events have got."""
    from headrace.cli.demo import run_demo  # noqa: PLC0415 - for a quick --help

    run_demo(settings, seconds=seconds, events_per_second=rate)


@app.command()
@with_broker_flags
def broker(values: dict[str, Any]) -> None:
    """Run only the embedded broker: a Kafka log on one node, until Ctrl-C."""
    from headrace.cli.broker import serve  # noqa: PLC0415 - for a quick --help

    serve(values)


@app.command()
@with_settings("data_dir")
def status(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the platform's state. Exit code: 0 all running, 1 not all running, 3 no platform is running."""
    from headrace.cli.status import show_status  # noqa: PLC0415 - for a quick --help

    raise typer.Exit(show_status(settings, as_json=as_json))


@app.command()
@with_settings("data_dir")
def down(settings: Settings) -> None:
    """Stop the platform that is running on the data folder, and wait until it is gone."""
    from headrace.cli.status import stop_platform  # noqa: PLC0415 - for a quick --help

    stop_platform(settings)


@app.command()
@with_settings("host", "kafka_port", "engine", "bootstrap_servers")
def topics(
    settings: Settings,
    name: Annotated[
        str | None, typer.Argument(help="Show the partitions of this topic.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List topics, or the partitions of one, with their messages, bytes and skew."""
    from headrace.cli.topics import show_topics  # noqa: PLC0415 - for a quick --help

    show_topics(settings, name, as_json=as_json)


@app.command()
@with_settings("data_dir", "events_topic", "host", "kafka_port", "engine", "bootstrap_servers")
def reconcile(
    settings: Settings,
    full: Annotated[
        bool, typer.Option("--full", help="Compare every record, whatever the counts say.")
    ] = False,
    with_repair: Annotated[
        bool, typer.Option("--repair", help="Read what is missing again; remove double rows.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare what was accepted with what came out. Exit code: 0 all there once, 1 missing or double."""
    from headrace.cli.reconcile import run_reconcile  # noqa: PLC0415 - for a quick --help

    raise typer.Exit(run_reconcile(settings, is_full=full, as_json=as_json, with_repair=with_repair))


@app.command()
@with_settings("data_dir")
def sql(
    settings: Settings,
    statement: Annotated[str, typer.Argument(help="The query, in SQL.", show_default=False)],
    output: Annotated[
        str, typer.Option("--format", "-f", help="Output format.", metavar="table|json|csv|chart")
    ] = "table",
    *,
    as_chart: Annotated[bool, typer.Option("--chart", help="The same as `--format chart`.")] = False,
    engine: Annotated[
        str, typer.Option("--engine", help="Who answers; Spark is for big questions.", metavar="duckdb|spark")
    ] = "duckdb",
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            help="Answer once this event can be seen; may be repeated.",
            metavar="TOPIC/PARTITION/OFFSET",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Query the lake. Exit code: 0 answered, 2 refused or failed, 130 interrupted."""
    from headrace.cli.sql import answer  # noqa: PLC0415 - for a quick --help

    answer(settings, statement, output="chart" if as_chart else output, engine=engine, after=after or ())


@app.command("sql-shell")
@with_settings("host", "statements_port")
def sql_shell(
    settings: Settings,
    url: Annotated[
        str | None,
        typer.Argument(help="A server with ksqlDB's API; default: the platform.", show_default=False),
    ] = None,
    execute: Annotated[
        str | None,
        typer.Option("--execute", "-e", help="Run these statements and exit.", show_default=False),
    ] = None,
) -> None:
    """Run statements at a prompt, as in ksqlDB's shell, or from standard input."""
    from headrace.cli.sql_shell import run_shell  # noqa: PLC0415 - for a quick --help

    raise typer.Exit(run_shell(url or _statements_url(settings), text=execute))


@app.command()
@with_settings("host", "statements_port")
def run(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="A file of statements.", show_default=False)],
) -> None:
    """Run the statements in a file, stopping at the first that fails."""
    from headrace.cli.sql_shell import run_file  # noqa: PLC0415 - for a quick --help

    raise typer.Exit(run_file(_statements_url(settings), file))


def _statements_url(settings: Settings) -> str:
    return f"http://{bracketed(settings.host)}:{settings.statements_port}"


@app.command("settings")
@with_loaded_settings()
def show_settings(
    loaded: LoadedSettings,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Print all settings in effect, and where each comes from."""
    values = {row.name: getattr(loaded.settings, row.name) for row in describe()}
    if as_json:
        print(json.dumps(values, default=str))
        return
    for name, value in values.items():
        shown = json.dumps(value, default=str, ensure_ascii=False)
        print(f"{name} = {shown}  # {loaded.sources[name]}")
