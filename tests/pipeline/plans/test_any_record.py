"""No record ends a query: whatever a step cannot do with a row makes a dead letter with the reason.

Generated records of every format go through every step into every format. A failing expression would fail the
job here, as it would end a query, and end it again after each restart.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.catalogue.catalogue import Catalogue, Format
from headrace.pipeline.formats import Serializer
from headrace.pipeline.plan import QueryPlan
from tests.pipeline.plans.generated_records import generated_records
from tests.pipeline.plans.given_records import Given, Records, Sent, catalogue_of, planned
from tests.pipeline.plans.harness import MemoryRegistry

SEED = 1
# Of records of each source.
COUNTS = pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.long)])

SCALARS = (
    "b BOOLEAN, i INTEGER, l BIGINT, d DOUBLE, s VARCHAR, x BYTES, n DECIMAL(12, 3), big DECIMAL(38, 10), "
    "born DATE, clock TIME, moment TIMESTAMP"
)
NESTED = (
    "a ARRAY<INTEGER>, aa ARRAY<ARRAY<VARCHAR>>, m MAP<VARCHAR, DOUBLE>, p STRUCT<city VARCHAR, since DATE>, "
    "ps ARRAY<STRUCT<t TIMESTAMP, n DECIMAL(4, 1)>>, pm MAP<VARCHAR, STRUCT<x BYTES, l ARRAY<BIGINT>>>"
)
SOURCES = f"""
CREATE STREAM json_in (k1 VARCHAR KEY, k2 INTEGER KEY, {SCALARS}, {NESTED})
    WITH (KAFKA_TOPIC='json_in', FORMAT='JSON');
CREATE STREAM avro_in (k1 VARCHAR KEY, k2 DATE KEY, {SCALARS}, {NESTED})
    WITH (KAFKA_TOPIC='avro_in', FORMAT='AVRO');
CREATE STREAM line_in (k1 VARCHAR KEY, k2 TIMESTAMP KEY, {SCALARS})
    WITH (KAFKA_TOPIC='line_in', FORMAT='DELIMITED');
CREATE STREAM timed (k BIGINT KEY, made VARCHAR, v INTEGER)
    WITH (KAFKA_TOPIC='timed', VALUE_FORMAT='JSON', TIMESTAMP='made', TIMESTAMP_FORMAT='y-MM-dd HH:mm');
CREATE STREAM hourly (k VARCHAR KEY, v INTEGER)
    WITH (KAFKA_TOPIC='hourly', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOURS');
CREATE STREAM visits (k VARCHAR KEY, v INTEGER)
    WITH (KAFKA_TOPIC='visits', VALUE_FORMAT='JSON', WINDOW_TYPE='SESSION');
CREATE TABLE people (k VARCHAR PRIMARY KEY, name VARCHAR, amount DECIMAL(9, 3), born DATE)
    WITH (KAFKA_TOPIC='people', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE TABLE places (k VARCHAR PRIMARY KEY, person VARCHAR, city VARCHAR)
    WITH (KAFKA_TOPIC='places', KEY_FORMAT='JSON', VALUE_FORMAT='AVRO');
"""
BARE_TYPES = (
    *("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BYTES", "DECIMAL(9, 3)", "DATE", "TIME"),
    *("TIMESTAMP", "ARRAY<DOUBLE>", "MAP<VARCHAR, BIGINT>", "STRUCT<a INTEGER, b ARRAY<VARCHAR>>"),
)
KAFKA_TYPES = ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BYTES")


@pytest.fixture(scope="module")
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture(scope="module")
def records(
    spark: SparkSession, registry: MemoryRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Records:
    return Records(spark=spark, folder=tmp_path_factory.mktemp("records"), registry=registry)


def run(
    records: Records, catalogue: Catalogue, *statements: str, count: int, each_once: bool = True
) -> list[list[Sent]]:
    """Run the statements on generated records of all their sources, and check what comes out."""
    given: dict[str, list[Given]] = {}
    frames: dict[str, DataFrame] = {}
    plans = [planned(statement, catalogue) for statement in statements]
    for plan in plans:
        for name in plan.sources:
            source = catalogue.sources[name]
            if source.topic not in given:
                given[source.topic] = list(generated_records(source, records.registry, SEED, count))
                frames[source.topic] = records.frame(given[source.topic])
    found = records.sent([(plan, frames) for plan in plans])
    for plan, sent in zip(plans, found, strict=True):
        first = given[catalogue.sources[plan.sources[0]].topic]
        for each in sent:
            check_record(each, first, plan, records.registry)
        if each_once:
            check_all(sent, count)
    return found


def check_record(each: Sent, first: list[Given], plan: QueryPlan, registry: MemoryRegistry) -> None:
    if each.is_dead:
        assert each.headers["headrace-error"], each
        assert each.headers["headrace-query"] == "CSAS_1"
        if "headrace-source" in each.headers:
            assert (each.key, each.value) == (first[each.number].key, first[each.number].value)
        return
    serializer = Serializer(plan.sink, registry)
    for data, read, encoding in (
        (each.key, serializer.read_key, plan.sink.key_encoding),
        (each.value, serializer.read_value, plan.sink.value_encoding),
    ):
        # Texts of KAFKA are passed on as they are, even if they are not UTF-8.
        if data is not None and encoding.format is not Format.KAFKA:
            read(data)


def check_all(sent: list[Sent], count: int) -> None:
    assert Counter(each.number for each in sent) == dict.fromkeys(range(count), 1), "lost, or sent twice"
    assert any(each.is_dead for each in sent), "the records were not odd enough"
    assert any(not each.is_dead for each in sent), "the records were too odd"


@COUNTS
def test_every_type_and_format(records: Records, count: int) -> None:
    run(
        records,
        catalogue_of(SOURCES),
        *(
            f"CREATE STREAM o WITH (FORMAT='{sink}') AS SELECT * FROM {source};"
            for source in ("json_in", "avro_in")
            for sink in ("JSON", "AVRO")
        ),
        *(
            f"CREATE STREAM o WITH (FORMAT='{sink}') AS SELECT * FROM line_in;"
            for sink in ("JSON", "AVRO", "DELIMITED")
        ),
        count=count,
    )


@pytest.mark.long
def test_every_type_alone(records: Records) -> None:
    """One column, not wrapped in a record, as key and as value; and a line with one field."""
    made, statements = [], []
    for number, kind in enumerate(BARE_TYPES):
        formats = ["JSON", "AVRO"]
        formats += ["DELIMITED"] if "<" not in kind else []
        formats += ["KAFKA"] if kind in KAFKA_TYPES else []
        for form in formats:
            name = f"{form}_{number}"
            wrap = ", WRAP_SINGLE_VALUE=false" if form in ("JSON", "AVRO") else ""
            key = "k INTEGER KEY" if "MAP" in kind else f"k {kind} KEY"
            made.append(
                f"CREATE STREAM {name} ({key}, v {kind}) WITH (KAFKA_TOPIC='{name}', FORMAT='{form}'{wrap});"
            )
            statements.append(f"CREATE STREAM o WITH (FORMAT='{form}'{wrap}) AS SELECT * FROM {name};")
    found = run(records, catalogue_of("\n".join(made)), *statements, count=100, each_once=False)
    for sent in found:
        assert Counter(each.number for each in sent) == dict.fromkeys(range(100), 1)


@COUNTS
def test_every_step_without_state(records: Records, count: int) -> None:
    run(
        records,
        catalogue_of(SOURCES),
        "CREATE STREAM o AS SELECT * FROM timed;",
        "CREATE STREAM o AS SELECT *, WINDOWSTART AS ws, WINDOWEND AS we FROM hourly;",
        "CREATE STREAM o AS SELECT *, WINDOWSTART AS ws, WINDOWEND AS we FROM visits;",
        "CREATE STREAM o WITH (KEY_FORMAT='JSON') AS SELECT * FROM json_in PARTITION BY moment, d, x;",
        "CREATE STREAM o WITH (KEY_FORMAT='AVRO') AS SELECT * FROM avro_in PARTITION BY p;",
        "CREATE STREAM o WITH (TIMESTAMP='moment') AS SELECT k1, k2, moment FROM json_in;",
        count=count,
    )
    found = run(
        records,
        catalogue_of(SOURCES),
        "CREATE STREAM o AS SELECT * FROM json_in WHERE i > l OR s LIKE '%a%' OR n < big;",
        "CREATE STREAM o AS SELECT k1, k2, EXPLODE(a) AS a, EXPLODE(aa) AS b, EXPLODE(ps) AS p FROM avro_in;",
        "CREATE STREAM o AS SELECT k1, s, name FROM json_in JOIN people ON json_in.k1 = people.k;",
        "CREATE STREAM o AS SELECT k1, s, name FROM json_in LEFT JOIN people ON json_in.k1 = people.k;",
        count=count,
        each_once=False,
    )
    for looked_up in found[-2:]:
        assert max(Counter(each.number for each in looked_up).values()) == 1, "a look-up gives one row"


@pytest.mark.long
def test_every_step_with_state(records: Records) -> None:
    catalogue = catalogue_of(SOURCES)
    calls = (
        "COUNT(*) AS c, SUM(i) AS si, SUM(l) AS sl, SUM(d) AS sd, SUM(n) AS sn, AVG(l) AS al, MIN(d) AS md, "
        "MAX(moment) AS mm, COLLECT_LIST(s) AS cl, COLLECT_SET(x) AS cs, LATEST_BY_OFFSET(born) AS lb, "
        "EARLIEST_BY_OFFSET(n) AS eb, TOPK(l, 3) AS tk, HISTOGRAM(s) AS h, STDDEV_SAMP(d) AS sds, "
        "COUNT_DISTINCT(s) AS cd"
    )
    run(
        records,
        catalogue,
        *(
            f"CREATE TABLE o WITH (FORMAT='{form}') AS SELECT k2, {calls} FROM json_in {window}"
            f"GROUP BY k2 {emit};"
            for form, window, emit in (
                ("JSON", "", ""),
                ("AVRO", "", ""),
                ("JSON", "WINDOW TUMBLING (SIZE 1 HOUR) ", ""),
                ("AVRO", "WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 6 HOURS) ", ""),
                ("JSON", "WINDOW SESSION (30 DAYS) ", "EMIT FINAL"),
            )
        ),
        "CREATE TABLE o AS SELECT name, COUNT(*) AS c, SUM(amount) AS a FROM people GROUP BY name;",
        "CREATE TABLE o AS SELECT places.k AS k, name, city FROM places"
        " LEFT JOIN people ON places.person = people.k;",
        "CREATE TABLE o AS SELECT ROWKEY AS k, name, city FROM places"
        " FULL JOIN people ON places.k = people.k;",
        *(
            f"CREATE STREAM o AS SELECT {key} AS k, j.s, l.x FROM json_in j "
            f"{kind} JOIN line_in l WITHIN 1000 DAYS ON j.k1 = l.k1;"
            for kind, key in (("INNER", "j.k1"), ("FULL", "ROWKEY"))
        ),
        count=600,
        each_once=False,
    )
