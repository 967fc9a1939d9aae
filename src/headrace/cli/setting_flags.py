"""Flags for settings, made from the table of settings: none is named here.

A command takes `settings` as its first parameter and is decorated with `with_settings`; on the command line
it then has a flag for each setting, and `--config`. Invariant: a new setting becomes a new flag without a
change here. Never adds a default of its own: a flag that was not given has no value.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from headrace.core.settings import (
    FILE_NAME,
    LoadedSettings,
    SettingDescription,
    describe,
    load_with_sources,
)

PANEL: Final = "Settings (also from HEADRACE_… environment variables and headrace.toml)"
_CONFIG: Final = "config"


def with_settings(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command flags for these settings (default: all), and `Settings` as its first argument."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def take(loaded: LoadedSettings, *arguments: Any, **options: Any) -> Any:
            return command(loaded.settings, *arguments, **options)

        functools.update_wrapper(take, command)
        return with_loaded_settings(*names)(take)

    return decorate


def with_loaded_settings(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `with_settings`, but the first argument is `LoadedSettings`, which knows the sources."""
    rows = [row for row in describe() if not names or row.name in names]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        def run(**given: Any) -> Any:
            flags = {row.name: given.pop(row.name) for row in rows}
            file = given.pop(_CONFIG)
            loaded = load_with_sources(flags, environ=os.environ, folder=Path.cwd(), file=file)
            return command(loaded, **given)

        run.__name__ = command.__name__
        run.__doc__ = command.__doc__
        parameters = [*own, _config_parameter(), *(_parameter(row) for row in rows)]
        # Typer reads both the signature and the annotations.
        signature = inspect.Signature(
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(row: SettingDescription) -> inspect.Parameter:
    option = typer.Option(
        row.flag,
        help=f"{row.help} Default: {row.default}." if str(row.default) else row.help,
        metavar="|".join(row.choices) or None,
        # Part of the help text above: the default is in the table, the flag itself has none.
        show_default=False,
        rich_help_panel=PANEL,
    )
    return _keyword(row.name, Annotated[row.kind | None, option])


def _config_parameter() -> inspect.Parameter:
    option = typer.Option(
        "--config",
        help=f"Settings file to read instead of {FILE_NAME} in the working directory.",
        show_default=False,
        rich_help_panel=PANEL,
    )
    return _keyword(_CONFIG, Annotated[Path | None, option])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
