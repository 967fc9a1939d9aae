"""One statement of every kind that runs a query, on the topics that the feed writes to, and their outputs.

Behind some of them are others: a chain of two, and counts behind a stream, behind a table function and behind
a look-up, which are right only if the topic between has every row once.

The topics of the feed are synced with every record, so that a power cut takes nothing that was sent. Of the
derived topics the platform itself says which are: those between two queries, and those of queries that keep
state. All else may come back shorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PARTITIONS: Final = 2
WINDOW_MS: Final = 60_000
SESSION_GAP_MS: Final = 4_000
WITHIN_MS: Final = 3_000
GRACE_MS: Final = 60_000

ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
CUSTOMERS: Final = "customers"
CITIES: Final = "cities"
EVENT_TOPIC: Final = "events"
USERS: Final = "users"

_GRACE: Final = "GRACE PERIOD 1 MINUTE"
_TOPIC: Final = "KAFKA_TOPIC="
_AMOUNT: Final = "CAST(EXTRACTJSONFIELD(CONTENT, '$.amount') AS INT)"
_NUMBER: Final = "CAST(EXTRACTJSONFIELD(O.CONTENT, '$.number') AS INT)"
_COUNTED: Final = f"SELECT CUSTOMER, COUNT(*) AS N, SUM({_AMOUNT}) AS TOTAL FROM PLAIN_ORDERS"
_PAID: Final = (
    f"SELECT O.CUSTOMER AS CUSTOMER, {_NUMBER} AS ORDERED, CAST(P.NUMBER AS INT) AS PAYMENT "
    "FROM PLAIN_ORDERS O"
)
_PAYMENTS: Final = f"JOIN PAYMENTS P WITHIN 3 SECONDS {_GRACE} ON O.CUSTOMER = P.CUSTOMER;"

# A topic of plain texts has no dead letters. Where there may be some, Spark runs one query more beside each
# that keeps state, and a machine with two cores would spend the rounds starting those.
SOURCES: Final = (
    "CREATE STREAM ORDERS (CUSTOMER VARCHAR KEY, NUMBER INT, CITY VARCHAR, AMOUNT INT, ITEMS ARRAY<VARCHAR>) "
    f"WITH (VALUE_FORMAT='JSON', {_TOPIC}'{ORDERS}');",
    "CREATE STREAM PLAIN_ORDERS (CUSTOMER VARCHAR KEY, CONTENT VARCHAR) "
    f"WITH (VALUE_FORMAT='KAFKA', {_TOPIC}'{ORDERS}');",
    "CREATE STREAM PAYMENTS (CUSTOMER VARCHAR KEY, NUMBER VARCHAR) "
    f"WITH (VALUE_FORMAT='KAFKA', {_TOPIC}'{PAYMENTS}');",
    "CREATE TABLE CUSTOMERS (CUSTOMER VARCHAR PRIMARY KEY, VERSION VARCHAR) "
    f"WITH (VALUE_FORMAT='KAFKA', {_TOPIC}'{CUSTOMERS}');",
    "CREATE TABLE CITIES (CITY VARCHAR PRIMARY KEY, COUNTRY VARCHAR) "
    f"WITH (KAFKA_TOPIC='{CITIES}', VALUE_FORMAT='KAFKA', GLOBAL=true);",
    "CREATE STREAM EVERYTHING (CUSTOMER VARCHAR KEY, KIND VARCHAR, NUMBER INT) "
    f"WITH (VALUE_FORMAT='AVRO', PARTITIONS={PARTITIONS}, {_TOPIC}'EVERYTHING');",
)

# By output topic, in the order of the data.
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "ORDERS_AVRO": (
        "CREATE STREAM ORDERS_AVRO WITH (VALUE_FORMAT='AVRO') AS "
        "SELECT CUSTOMER, NUMBER, AMOUNT FROM ORDERS;",
    ),
    "BIG_ORDERS": (
        "CREATE STREAM BIG_ORDERS WITH (VALUE_FORMAT='JSON') AS "
        "SELECT CUSTOMER, NUMBER FROM ORDERS_AVRO WHERE AMOUNT >= 50;",
    ),
    "AVRO_COUNTS": (
        "CREATE TABLE AVRO_COUNTS WITH (VALUE_FORMAT='JSON') AS SELECT CUSTOMER, COUNT(*) AS N, "
        "SUM(AMOUNT) AS TOTAL FROM ORDERS_AVRO GROUP BY CUSTOMER EMIT CHANGES;",
    ),
    "LINES": (
        "CREATE STREAM LINES AS SELECT CUSTOMER, NUMBER, EXPLODE(ITEMS) AS ITEM FROM ORDERS "
        "WHERE AMOUNT >= 50;",
    ),
    "LINE_COUNTS": (
        "CREATE TABLE LINE_COUNTS AS SELECT CUSTOMER, COUNT(*) AS N FROM LINES "
        "GROUP BY CUSTOMER EMIT CHANGES;",
    ),
    "BY_CITY": ("CREATE STREAM BY_CITY AS SELECT CITY, NUMBER FROM ORDERS PARTITION BY CITY;",),
    "EVERYTHING": (
        "INSERT INTO EVERYTHING SELECT CUSTOMER, 'order' AS KIND, NUMBER FROM ORDERS;",
        "INSERT INTO EVERYTHING SELECT CUSTOMER, 'payment' AS KIND, CAST(NUMBER AS INT) AS NUMBER "
        "FROM PAYMENTS;",
    ),
    "IN_COUNTRY": (
        "CREATE STREAM IN_COUNTRY AS SELECT O.CITY AS CITY, O.NUMBER AS NUMBER, C.COUNTRY AS COUNTRY "
        "FROM ORDERS O JOIN CITIES C ON O.CITY = C.CITY;",
    ),
    "OF_CUSTOMER": (
        "CREATE STREAM OF_CUSTOMER AS SELECT O.CUSTOMER AS CUSTOMER, O.NUMBER AS NUMBER, "
        "CAST(C.VERSION AS INT) AS VERSION FROM ORDERS O JOIN CUSTOMERS C ON O.CUSTOMER = C.CUSTOMER;",
    ),
    "OF_CUSTOMER_COUNTS": (
        "CREATE TABLE OF_CUSTOMER_COUNTS AS SELECT CUSTOMER, COUNT(*) AS N FROM OF_CUSTOMER "
        "GROUP BY CUSTOMER EMIT CHANGES;",
    ),
    "COUNTS": (
        f"CREATE TABLE COUNTS WITH (VALUE_FORMAT='JSON') AS {_COUNTED} GROUP BY CUSTOMER EMIT CHANGES;",
    ),
    "CUSTOMERS_BY_COUNT": (
        "CREATE TABLE CUSTOMERS_BY_COUNT AS SELECT N, COUNT(*) AS CUSTOMERS FROM COUNTS "
        "GROUP BY N EMIT CHANGES;",
    ),
    "CUSTOMER_COUNTS": (
        "CREATE TABLE CUSTOMER_COUNTS AS SELECT T.CUSTOMER AS CUSTOMER, T.N AS N, "
        "CAST(C.VERSION AS INT) AS VERSION FROM COUNTS T JOIN CUSTOMERS C ON T.CUSTOMER = C.CUSTOMER;",
    ),
    "MINUTES": (
        f"CREATE TABLE MINUTES WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
        f"WINDOW TUMBLING (SIZE 1 MINUTE, {_GRACE}) GROUP BY CUSTOMER EMIT CHANGES;",
    ),
    "FINAL_MINUTES": (
        f"CREATE TABLE FINAL_MINUTES WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
        f"WINDOW TUMBLING (SIZE 1 MINUTE, {_GRACE}) GROUP BY CUSTOMER EMIT FINAL;",
    ),
    "SESSIONS": (
        f"CREATE TABLE SESSIONS WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
        f"WINDOW SESSION (4 SECONDS, {_GRACE}) GROUP BY CUSTOMER EMIT FINAL;",
    ),
    "PAID": (f"CREATE STREAM PAID WITH (VALUE_FORMAT='AVRO') AS {_PAID} {_PAYMENTS}",),
    "PAID_OR_NOT": (f"CREATE STREAM PAID_OR_NOT WITH (VALUE_FORMAT='JSON') AS {_PAID} LEFT {_PAYMENTS}",),
}

# What the lake's table is fed by, with a look-up: the rows reach the topic in any order.
EVENTS: Final = (
    "CREATE STREAM EVENTS (USER_KEY VARCHAR KEY, EVENT_TYPE VARCHAR, EVENT_VERSION VARCHAR, USER_ID VARCHAR, "
    "LISTING_ID VARCHAR, SERVER_TIME VARCHAR, DEVICE_TYPE VARCHAR) "
    "WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');",
    f"CREATE TABLE USERS (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='{USERS}', "
    "VALUE_FORMAT='KAFKA');",
    "CREATE STREAM EVENTS_AVRO WITH (KAFKA_TOPIC='events_avro', VALUE_FORMAT='AVRO') AS SELECT "
    "E.USER_KEY AS USER_KEY, E.EVENT_TYPE AS EVENT_TYPE, E.EVENT_VERSION AS EVENT_VERSION, "
    "E.USER_ID AS USER_ID, E.LISTING_ID AS LISTING_ID, E.SERVER_TIME AS SERVER_TIME, "
    "E.DEVICE_TYPE AS DEVICE_TYPE, SUBSTRING(E.SERVER_TIME, 0, 10) AS SERVER_DATE "
    "FROM EVENTS E LEFT JOIN USERS U ON E.USER_KEY = U.ID;",
)

# Outputs that run together, each group with whatever its queries read. The fewer they are, the sooner all
# run again after a kill, and the more kills there are in an hour.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "chains": ("ORDERS_AVRO", "BIG_ORDERS", "AVRO_COUNTS"),
    "lines": ("LINES", "LINE_COUNTS", "EVERYTHING"),
    "look-ups": ("IN_COUNTRY", "OF_CUSTOMER", "OF_CUSTOMER_COUNTS"),
    "tables": ("COUNTS", "CUSTOMERS_BY_COUNT", "CUSTOMER_COUNTS"),
    "windows": ("MINUTES", "FINAL_MINUTES", "SESSIONS"),
    "joins": ("BY_CITY", "PAID", "PAID_OR_NOT"),
}

# The topics that are written from outside, with their partitions; compacted ones are tables.
ROOTS: Final[Mapping[str, int]] = {
    ORDERS: PARTITIONS,
    PAYMENTS: PARTITIONS,
    CUSTOMERS: PARTITIONS,
    CITIES: 1,
    EVENT_TOPIC: 4,
    USERS: 4,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """How the records of a topic are to be read. `window_bytes` stand behind the key."""

    name: str
    value_format: str = "JSON"
    window_bytes: int = 0
    has_number_key: bool = False
    # Has rows only when a window is closed.
    is_final: bool = False


OUTPUTS: Final = (
    OutputTopic(name="ORDERS_AVRO", value_format="AVRO"),
    OutputTopic(name="BIG_ORDERS"),
    OutputTopic(name="AVRO_COUNTS"),
    OutputTopic(name="LINES"),
    OutputTopic(name="LINE_COUNTS"),
    OutputTopic(name="BY_CITY"),
    OutputTopic(name="EVERYTHING", value_format="AVRO"),
    OutputTopic(name="IN_COUNTRY"),
    OutputTopic(name="OF_CUSTOMER"),
    OutputTopic(name="OF_CUSTOMER_COUNTS"),
    OutputTopic(name="COUNTS"),
    OutputTopic(name="CUSTOMERS_BY_COUNT", has_number_key=True),
    OutputTopic(name="CUSTOMER_COUNTS"),
    OutputTopic(name="MINUTES", window_bytes=8),
    OutputTopic(name="FINAL_MINUTES", window_bytes=8, is_final=True),
    OutputTopic(name="SESSIONS", window_bytes=16, is_final=True),
    OutputTopic(name="PAID", value_format="AVRO"),
    OutputTopic(name="PAID_OR_NOT", is_final=True),
)
