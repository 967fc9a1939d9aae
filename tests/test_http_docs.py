"""Every HTTP route is on the page, and the page names no route that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from litestar import Litestar

from headrace.http.connect.app import create_connect_app
from headrace.http.druid.app import create_druid_app
from headrace.http.events.app import ROUTES
from headrace.http.query.app import QueryServices, create_query_app, query_handlers
from headrace.http.registry.app import create_registry_app
from headrace.http.statements.app import create_statements_app

PAGE = Path(__file__).parent.parent / "docs" / "http.md"


def _routes(application: Litestar) -> set[str]:
    found = set()
    for route in application.routes:
        path = re.sub(r":\w+}", "}", route.path)
        for method in set(getattr(route, "methods", ())) - {"OPTIONS", "HEAD"}:
            found.add(f"{method} {path}")
    return found


def test_every_route_is_documented_and_every_documented_route_exists() -> None:
    nothing: Any = None
    services = QueryServices(sql=nothing, topics=nothing, flow=nothing)
    there = {f"{method} {path}" for path, method in ROUTES.items()}
    there |= _routes(Litestar(query_handlers(services), openapi_config=None))
    there |= _routes(create_query_app(nothing))
    there |= _routes(cast(Litestar, create_registry_app(nothing))) - {"GET /"}
    # A handler of its own, as it answers while it still reads.
    there |= _routes(create_connect_app(nothing, nothing, cluster_id=nothing))
    there |= _routes(create_statements_app(nothing)) - {"GET /"} | {"POST /inserts-stream"}
    there |= _routes(create_druid_app(nothing))
    documented = set(
        re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`", PAGE.read_text(encoding="utf-8"))
    )
    assert documented == there
