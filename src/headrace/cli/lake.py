"""`headrace lake`: repairs tables of the lake.

Invariant: a command imports what it needs when it runs, as in `app.py`. Contains no logic: that is in
`lake/repairing.py`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.setting_flags import with_settings
from headrace.core.settings import Settings

app = typer.Typer(help="Repair tables of the lake.", no_args_is_help=True)


@app.command()
@with_settings("data_dir")
def repair(
    settings: Settings,
    table: Annotated[str, typer.Argument(help="The table, such as events.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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
