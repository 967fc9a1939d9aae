"""Explode: a row for each element of the longest table function; shorter ones are filled with nulls.

If the functions return no elements, there is no row. The ordinal in a row's coordinates counts the elements,
so that the rows of one record are distinct. Unreadable records pass unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import Explode
from headrace.pipeline.spark.steps.rows import ORDINAL, ORIGIN, REASON, Rows, column, columns

_ELEMENTS = "__elements"


def explode_rows(step: Explode, rows: Rows) -> Rows:
    given = [each.name for each in step.functions]
    arrays = [F.coalesce(F.expr(each.value.spark), F.array()) for each in step.functions]
    zipped = F.arrays_zip(*(array.alias(f"f{n}") for n, array in enumerate(arrays)))
    elements = F.transform(
        zipped,
        lambda element, position: F.struct(
            position.alias("position"),
            *(element[f"f{n}"].alias(f"f{n}") for n in range(len(arrays))),
        ),
    )
    if rows.has_reasons:
        # An element beyond the last is a null of the right type.
        one = F.array(F.try_element_at(elements, F.size(elements) + 1))
        elements = F.when(column(REASON).isNotNull(), one).otherwise(elements)
    kept = [name for name in rows.frame.columns if name not in (*given, ORDINAL, ORIGIN)]
    frame = rows.frame.select(*columns(rows.frame.columns), F.explode(elements).alias(_ELEMENTS))
    element = F.col(_ELEMENTS)
    made = [element[f"f{n}"].alias(name) for n, name in enumerate(given)]
    if ORDINAL in rows.frame.columns:
        made.append(F.coalesce(element["position"], F.lit(0)).alias(ORDINAL))
    if ORIGIN in rows.frame.columns:
        made.append(F.xxhash64(column(ORIGIN), element["position"]).alias(ORIGIN))
    return replace(rows, frame=frame.select(*columns(kept), *made))
