"""One statement of every kind that runs a query, on four topics, and where each of them writes to.

Everything that counts or joins reads topics that the feed writes to, where each record is once: behind a
stream that may have records twice after a crash, as is promised, a count could only be too high.
"""

from __future__ import annotations

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

_GRACE: Final = "GRACE PERIOD 1 MINUTE"
_TOPIC: Final = f"PARTITIONS={PARTITIONS}, KAFKA_TOPIC="
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
    f"WITH (KAFKA_TOPIC='{CITIES}', VALUE_FORMAT='KAFKA', PARTITIONS=1, GLOBAL=true);",
    "CREATE STREAM EVERYTHING (CUSTOMER VARCHAR KEY, KIND VARCHAR, NUMBER INT) "
    f"WITH (VALUE_FORMAT='AVRO', {_TOPIC}'EVERYTHING');",
)

QUERIES: Final = (
    "CREATE STREAM ORDERS_AVRO WITH (VALUE_FORMAT='AVRO') AS SELECT CUSTOMER, NUMBER, AMOUNT FROM ORDERS;",
    "CREATE STREAM LINES AS SELECT CUSTOMER, NUMBER, EXPLODE(ITEMS) AS ITEM FROM ORDERS WHERE AMOUNT >= 50;",
    "CREATE STREAM BY_CITY AS SELECT CITY, NUMBER FROM ORDERS PARTITION BY CITY;",
    "INSERT INTO EVERYTHING SELECT CUSTOMER, 'order' AS KIND, NUMBER FROM ORDERS;",
    "INSERT INTO EVERYTHING SELECT CUSTOMER, 'payment' AS KIND, CAST(NUMBER AS INT) AS NUMBER FROM PAYMENTS;",
    "CREATE STREAM IN_COUNTRY AS SELECT O.CITY AS CITY, O.NUMBER AS NUMBER, C.COUNTRY AS COUNTRY "
    "FROM ORDERS O JOIN CITIES C ON O.CITY = C.CITY;",
    "CREATE STREAM OF_CUSTOMER AS SELECT O.CUSTOMER AS CUSTOMER, O.NUMBER AS NUMBER, "
    "CAST(C.VERSION AS INT) AS VERSION FROM ORDERS O JOIN CUSTOMERS C ON O.CUSTOMER = C.CUSTOMER;",
    f"CREATE TABLE COUNTS WITH (VALUE_FORMAT='JSON') AS {_COUNTED} GROUP BY CUSTOMER EMIT CHANGES;",
    "CREATE TABLE CUSTOMERS_BY_COUNT AS SELECT N, COUNT(*) AS CUSTOMERS FROM COUNTS GROUP BY N EMIT CHANGES;",
    "CREATE TABLE CUSTOMER_COUNTS AS SELECT T.CUSTOMER AS CUSTOMER, T.N AS N, "
    "CAST(C.VERSION AS INT) AS VERSION FROM COUNTS T JOIN CUSTOMERS C ON T.CUSTOMER = C.CUSTOMER;",
    f"CREATE TABLE MINUTES WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
    f"WINDOW TUMBLING (SIZE 1 MINUTE, {_GRACE}) GROUP BY CUSTOMER EMIT CHANGES;",
    f"CREATE TABLE FINAL_MINUTES WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
    f"WINDOW TUMBLING (SIZE 1 MINUTE, {_GRACE}) GROUP BY CUSTOMER EMIT FINAL;",
    f"CREATE TABLE SESSIONS WITH (VALUE_FORMAT='JSON') AS {_COUNTED} "
    f"WINDOW SESSION (4 SECONDS, {_GRACE}) GROUP BY CUSTOMER EMIT FINAL;",
    f"CREATE STREAM PAID WITH (VALUE_FORMAT='AVRO') AS {_PAID} {_PAYMENTS}",
    f"CREATE STREAM PAID_OR_NOT WITH (VALUE_FORMAT='JSON') AS {_PAID} LEFT {_PAYMENTS}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """How the records of a topic are to be read. `window_bytes` stand behind the key."""

    name: str
    value_format: str = "JSON"
    window_bytes: int = 0
    has_number_key: bool = False


OUTPUTS: Final = (
    OutputTopic(name="ORDERS_AVRO", value_format="AVRO"),
    OutputTopic(name="LINES"),
    OutputTopic(name="BY_CITY"),
    OutputTopic(name="EVERYTHING", value_format="AVRO"),
    OutputTopic(name="IN_COUNTRY"),
    OutputTopic(name="OF_CUSTOMER"),
    OutputTopic(name="COUNTS"),
    OutputTopic(name="CUSTOMERS_BY_COUNT", has_number_key=True),
    OutputTopic(name="CUSTOMER_COUNTS"),
    OutputTopic(name="MINUTES", window_bytes=8),
    OutputTopic(name="FINAL_MINUTES", window_bytes=8),
    OutputTopic(name="SESSIONS", window_bytes=16),
    OutputTopic(name="PAID", value_format="AVRO"),
    OutputTopic(name="PAID_OR_NOT"),
)
