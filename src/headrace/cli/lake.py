"""`headrace lake`: shows the tables of the lake; merges, vacuums, restores, rebuilds and repairs them.

Invariant: a command imports what it needs when it runs, as in `app.py`. Contains no logic: that is in
`assembly/lake_tables.py` and `lake/`; the output is in `lake_output.py`.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headrace.cli.setting_flags import with_settings
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

app = typer.Typer(help="Show, maintain, restore and repair tables of the lake.", no_args_is_help=True)

_LOG: Final = ("data_dir", "host", "kafka_port", "engine", "bootstrap_servers", "lake_file_megabytes")
_Table = Annotated[
    str,
    typer.Argument(
        help="The table, such as events; or its connector and topic (connector.topic), or its location.",
        show_default=False,
    ),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
@with_settings(*_LOG)
def tables(settings: Settings, as_json: _AsJson = False) -> None:
    """List the tables of all lake connectors, with rows, files, bytes and how far behind they are."""
    from headrace.cli.lake_output import print_remark, print_tables  # noqa: PLC0415
    from headrace.cli.lake_running import opened  # noqa: PLC0415

    with opened(settings) as lake:
        print_remark(lake.remark)
        print_tables([lake.see(table) for table in lake.tables], as_json=as_json)


@app.command()
@with_settings(*_LOG)
def show(settings: Settings, table: _Table, as_json: _AsJson = False) -> None:
    """Show one table: columns, partitions, file sizes, positions of its topic, settings."""
    from headrace.cli.lake_output import print_remark, print_table  # noqa: PLC0415
    from headrace.cli.lake_running import existing, opened  # noqa: PLC0415

    with opened(settings) as lake:
        print_remark(lake.remark)
        print_table(existing(lake, table), as_json=as_json)


@app.command()
@with_settings(*_LOG)
def history(
    settings: Settings,
    table: _Table,
    limit: Annotated[int, typer.Option(help="How many versions to show, newest first.", min=1)] = 20,
    as_json: _AsJson = False,
) -> None:
    """List the versions of a table: time, operation, files, rows, positions."""
    from headrace.cli.lake_output import print_history, print_remark  # noqa: PLC0415
    from headrace.cli.lake_running import existing, opened  # noqa: PLC0415
    from headrace.lake.delta_log import DeltaLog  # noqa: PLC0415
    from headrace.lake.versions import versions_of  # noqa: PLC0415

    with opened(settings) as lake:
        print_remark(lake.remark)
        log = DeltaLog(existing(lake, table, is_whole=False).table.location)
        print_history(versions_of(log, most=limit), as_json=as_json)


@app.command()
@with_settings(*_LOG)
def optimize(
    settings: Settings,
    table: _Table,
    partition: Annotated[
        str, typer.Option(help="Only this partition: EVENT_TYPE=x,SERVER_DATE=y.", show_default=False)
    ] = "",
    as_json: _AsJson = False,
) -> None:
    """Merge the small files of a table now."""
    from headrace.cli.lake_running import ordered  # noqa: PLC0415

    ordered(settings, "optimize", table, partition=partition, as_json=as_json)


@app.command()
@with_settings(*_LOG)
def vacuum(
    settings: Settings,
    *,
    table: _Table,
    hours: Annotated[
        int | None,
        typer.Option(help="Keep what versions of so many hours need; default: lake_vacuum_hours.", min=0),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even less than lake_vacuum_hours.")] = False,
    as_json: _AsJson = False,
) -> None:
    """Delete the files of a table that no recent version needs."""
    from headrace.cli.lake_running import ordered  # noqa: PLC0415

    ordered(settings, "vacuum", table, hours=hours, is_dry_run=dry_run, is_forced=force, as_json=as_json)


@app.command()
@with_settings(*_LOG)
def restore(
    settings: Settings,
    *,
    table: _Table,
    version: Annotated[
        int | None, typer.Option(help="The version to go back to.", min=0, show_default=False)
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            help="The version of that time: 2026-03-14T12:00:00, in UTC unless it has an offset.",
            show_default=False,
        ),
    ] = "",
    yes: _Yes = False,
    as_json: _AsJson = False,
) -> None:
    """Go back to a version of a table; what came later is read again from its topic."""
    from headrace.cli.lake_running import restored  # noqa: PLC0415

    if (version is None) == (not time):
        raise HeadraceError(
            "bad_request",
            "A restore needs a version or a time, and not both.",
            remedy="Give --version or --time.",
        )
    if as_json and not yes:
        raise HeadraceError(
            "bad_request", "--json cannot ask whether the restore is wanted.", remedy="Add --yes."
        )
    restored(settings, table, version=version, time=time, is_asked=not yes, as_json=as_json)


@app.command()
@with_settings(*_LOG)
def rebuild(
    settings: Settings,
    table: _Table,
    partition: Annotated[
        str, typer.Option(help="The partition: EVENT_TYPE=x,SERVER_DATE=y.", show_default=False)
    ],
    as_json: _AsJson = False,
) -> None:
    """Read one partition of a table again from its topic, and replace its files."""
    from headrace.cli.lake_running import ordered  # noqa: PLC0415

    ordered(settings, "rebuild", table, partition=partition, as_json=as_json)


@app.command()
@with_settings("data_dir")
def repair(
    settings: Settings,
    table: Annotated[str, typer.Argument(help="The table, such as events.", show_default=False)],
    yes: _Yes = False,
) -> None:
    """Put damaged commits of a table aside; the pipeline reads their records again from the topic."""
    from headrace.lake.repairing import SET_ASIDE, carry_out_all, plan_repair  # noqa: PLC0415

    folder = settings.lake_dir / table
    plan = plan_repair(table, folder)
    if plan is None:
        print(f"Table {table} can be read: there is nothing to repair.")
        return
    print(f"{plan.damage.file}: {plan.damage.reason}.")
    print(f"Table {table} goes back to version {plan.version}. To {folder / SET_ASIDE} go:")
    for file in plan.files:
        print(f"  {file.name}")
    if not yes:
        typer.confirm("Repair it?", abort=True)
    carry_out_all(plan, table, folder)
    print("Repaired. A running pipeline starts the query of the table again within seconds.")
