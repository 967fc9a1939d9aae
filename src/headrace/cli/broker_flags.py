"""The flags of `headrace broker` for typer, made from their table: none is named here.

Invariant: typer and the fast path in `broker.py` accept the same table. Never adds a default of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.broker import FLAGS, BrokerFlag


def with_broker_flags(command: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    """Give a command these flags; it receives a dictionary of their values (None: not given)."""

    def run(**given: Any) -> None:
        command({name: value for name, value in given.items() if value is not None})

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    parameters = [_parameter(flag) for flag in FLAGS]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(flag: BrokerFlag) -> inspect.Parameter:
    default = "" if flag.default in {"", ()} else f" Default: {flag.default}."
    option = typer.Option(
        flag.flag,
        help=flag.help + default,
        metavar="|".join(flag.choices) or ("NAME=VALUE" if flag.repeated else None),
        show_default=False,
    )
    kind: Any = list[flag.kind] if flag.repeated else flag.kind  # type: ignore[name-defined]
    return inspect.Parameter(
        flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
