"""WHERE."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.expressions.compiling import condition
from headrace.pipeline.plan import Filter
from headrace.pipeline.rules.draft import Draft


def filter_rows(draft: Draft) -> Draft:
    where = draft.select.where
    if where is None:
        return draft
    kept = condition(where, draft.scope.within("WHERE"))
    return replace(draft, step=Filter(input=draft.top, condition=kept))
