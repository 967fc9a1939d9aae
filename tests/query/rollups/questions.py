"""A grammar of questions over the table of `lakes.py`: many that a rollup answers, and many that none "
"does."""

from __future__ import annotations

from hypothesis import strategies as st

_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade")
_BOUNDS = (
    "'2026-01-05'", "TIMESTAMP '2026-01-05 07:00:00'", "TIMESTAMPTZ '2026-01-05 07:15:00+00'",
    "DATE '2026-02-01'",
    "TIMESTAMP '2026-01-05 06:59:59.999999'", "DATE '1969-12-29'", "TIMESTAMP '2026-01-01' + INTERVAL 3 DAY",
    "'2026-01-05 02:00:00+02'", "NULL", "date_trunc('day', now()) - INTERVAL 300 DAY", "current_date",
    "date_trunc('month', TIMESTAMP '2026-01-31')", "TIMESTAMP_NS '2026-01-05 00:00:00.000000001'",
)  # fmt: skip
_TIME = st.sampled_from(["ts", "local", "timezone('UTC', ts)", "CAST(ts AS TIMESTAMP)", "events.ts"])

times = st.one_of(
    st.builds("date_trunc('{}', {})".format, st.sampled_from(_UNITS), _TIME),
    st.builds(
        "time_bucket(INTERVAL '{}', {}{})".format,
        st.sampled_from(
            ["15 minutes", "1 hour", "6 hours", "1 day", "7 days", "1 month", "90 minutes", "3 months"]
        ),
        _TIME,
        st.sampled_from(["", "", ", TIMESTAMP '2000-01-01 00:00:00'", ", TIMESTAMP '2000-01-01 00:20:00'"]),
    ),
    st.builds(
        "date_part('{}', {})".format,
        st.sampled_from(
            ["year", "month", "day", "hour", "minute", "dow", "week", "isoyear", "epoch", "millisecond"]
        ),
        _TIME,
    ),
    st.builds("CAST({} AS DATE)".format, _TIME),
    st.builds(
        "{}({})".format, st.sampled_from(["year", "monthname", "last_day", "dayofweek", "hour"]), _TIME
    ),
    st.builds(
        "strftime({}, '{}')".format, _TIME, st.sampled_from(["%Y-%m-%d", "%H:%M", "%-d.%B", "%f", "%Y%%"])
    ),
)
plain = st.sampled_from(
    ["kind", "day", "flag", "size", "events.kind", "upper(kind)", "kind || '!'", "coalesce(kind, 'none')",
     "kind IS NULL",
     "CASE WHEN kind = 'a' THEN 1 ELSE 2 END", "nullif(kind, 'b')", "ts", "note", "length(day)"]
)  # fmt: skip
keys = st.one_of(plain, times)

predicates = st.one_of(
    st.builds(
        "{} {} {}".format, _TIME, st.sampled_from([">=", "<", ">", "<=", "="]), st.sampled_from(_BOUNDS)
    ),
    st.builds("{} {} {}".format, st.sampled_from(_BOUNDS), st.sampled_from([">", "<=", ">=", "<"]), _TIME),
    st.builds("{} BETWEEN {} AND {}".format, _TIME, st.sampled_from(_BOUNDS), st.sampled_from(_BOUNDS)),
    st.builds("{} >= {}".format, times, times),
    st.sampled_from(
        ["kind = 'a'", "kind IN ('a', 'b')", "kind IS NULL", "kind LIKE '%a%'", "day >= '2026-01-03'", "flag",
         "NOT flag", "size > 1", "x > 0", "kind = 'a' OR flag", "ts IS NULL", "local IS NOT NULL",
         "random() < 2",
         "CAST(ts AS DATE) >= DATE '2026-01-04'", "kind = (SELECT 'a')"]
    ),
)  # fmt: skip

_COLUMNS = st.sampled_from(["x", "size", "price", "wide", "heat", "note", "ts", "kind", "day"])
_BARE = st.one_of(
    st.sampled_from(
        ["count(*)", "count(1)", "count(NULL)", "count(DISTINCT kind)", "count(DISTINCT day)",
         "approx_count_distinct(kind)", "bool_or(flag)", "sum(CASE WHEN kind = 'a' THEN 1 ELSE 0 END)",
         "sum(CASE WHEN kind = 'a' THEN x END)", "sum(CASE WHEN kind = 'a' THEN price ELSE 0 END)",
         "max(CASE WHEN flag THEN x END)", "count(CASE WHEN kind = 'b' THEN x END)",
         "count(CASE WHEN kind = 'b' THEN 1 END)",
         "sum(length(kind))", "sum(DISTINCT size)", "avg(CASE WHEN kind = 'a' THEN x END)", "sum(x + 1)",
         "sum(0.5)",
         "mode(day IS NULL)", "count_if(kind = 'a')", "string_agg(kind, ',' ORDER BY kind)", "median(x)"]
    ),
    st.builds("{}({})".format, st.sampled_from(["count", "min", "max"]), _COLUMNS),
    st.builds("{}({})".format, st.sampled_from(["sum", "avg"]), st.sampled_from(["x", "size", "price",
    "wide"])),
)  # fmt: skip
aggregates = st.one_of(
    _BARE,
    _BARE,
    st.builds("{} FILTER (WHERE {})".format, _BARE, predicates),
    st.builds("{} * 2".format, _BARE),
    st.builds("sum(count(*)) OVER () + {}".format, st.just("0")),
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """One query node."""
    grouped = draw(st.lists(keys, max_size=3, unique=True))
    counted = draw(st.lists(aggregates, min_size=0 if grouped else 1, max_size=4))
    named = [f"{key} AS k{number}" for number, key in enumerate(grouped)]
    items = draw(st.permutations([*named, *(f"{each} AS a{number}" for number, each in enumerate(counted))]))
    where = draw(st.lists(predicates, max_size=2))
    text = f"SELECT {draw(st.sampled_from(['', '', 'DISTINCT ']))}{', '.join(items)} FROM events"
    if where:
        text += f" WHERE {' AND '.join(f'({each})' for each in where)}"
    if grouped:
        names = ", ".join(f"k{number}" for number in range(len(grouped)))
        text += " GROUP BY " + draw(
            st.sampled_from(
                ["ALL", names, ", ".join(grouped), f"ROLLUP ({names})", f"GROUPING SETS (({names}), ())"]
            )
        )
        if draw(st.booleans()):
            text += (
                f" HAVING {draw(st.sampled_from(['count(*) > 1', 'max(x) IS NOT NULL', 'k0 IS NOT NULL']))}"
            )
    if draw(st.booleans()):
        text += " ORDER BY ALL"
        if draw(st.booleans()):
            text += " LIMIT 3"
    return text


@st.composite
def questions(draw: st.DrawFn) -> str:
    """Queries by themselves and within others."""
    first = draw(queries())
    match draw(st.sampled_from(["plain", "plain", "plain", "with", "union", "inner", "brackets"])):
        case "with":
            return f"WITH q AS ({first}) SELECT count(*), (SELECT count(*) FROM events) FROM q"
        case "union":
            return f"SELECT count(*) FROM ({first}) UNION ALL SELECT count(*) FROM events WHERE kind = 'a'"
        case "inner":
            return f"SELECT * FROM ({first}) AS q"
        case "brackets":
            return first.replace(
                "FROM events", "FROM (SELECT ts AS ts, * EXCLUDE (ts) FROM events) AS events"
            )
        case _:
            return first
