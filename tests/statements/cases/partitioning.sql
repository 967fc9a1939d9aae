-- PARTITION BY a column of the value: the former key becomes a value
CREATE STREAM S (ID VARCHAR KEY, CITY VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_CITY AS SELECT * FROM S PARTITION BY CITY;
<<< people
"1" | {"city": "Bern", "age": 30} | @1000
"2" | {"city": null, "age": 31} | @2000
>>> BY_CITY
"Bern" | {"AGE": 30, "ID": "1"} | @1000
null | {"AGE": 31, "ID": "2"} | @2000
----
-- PARTITION BY an expression
CREATE STREAM S (ID VARCHAR KEY, CITY VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_CITY AS SELECT UCASE(CITY) AS C, AGE FROM S PARTITION BY UCASE(CITY);
<<< people
"1" | {"city": "Bern", "age": 30}
>>> BY_CITY
"BERN" | {"AGE": 30}
----
-- PARTITION BY another type of key
-- long
CREATE STREAM S (ID VARCHAR KEY, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_AGE AS SELECT AGE, ID FROM S PARTITION BY AGE;
CREATE STREAM BY_LONG AS SELECT CAST(AGE AS BIGINT) AS L, ID FROM S PARTITION BY CAST(AGE AS BIGINT);
<<< people
"1" | {"age": 30}
>>> BY_AGE
30 | {"ID": "1"}
>>> BY_LONG
30 | {"ID": "1"}
----
-- PARTITION BY several columns
-- real-time
CREATE STREAM S (ID VARCHAR KEY, CITY VARCHAR, AGE INT, N INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_BOTH WITH (KEY_FORMAT='JSON') AS SELECT CITY, AGE, N FROM S PARTITION BY CITY, AGE;
<<< people
"1" | {"city": "Bern", "age": 30, "n": 1}
>>> BY_BOTH
{"CITY": "Bern", "AGE": 30} | {"N": 1}
----
-- PARTITION BY a field of a struct
-- long
CREATE STREAM S (ID VARCHAR KEY, P STRUCT<CITY VARCHAR>, N INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_CITY AS SELECT P->CITY AS CITY, ID, N FROM S PARTITION BY P->CITY;
<<< people
"1" | {"p": {"city": "Bern"}, "n": 1}
"2" | {"p": null, "n": 2}
>>> BY_CITY
"Bern" | {"ID": "1", "N": 1}
null | {"ID": "2", "N": 2}
----
-- PARTITION BY behind a filter, to more partitions
-- long
CREATE STREAM S (ID VARCHAR KEY, CITY VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_CITY WITH (PARTITIONS=3) AS SELECT CITY, AGE FROM S WHERE AGE > 18 PARTITION BY CITY;
<<< people
"1" | {"city": "Bern", "age": 30}
"2" | {"city": "Rome", "age": 3}
"3" | {"city": "Oslo", "age": 33}
>>> BY_CITY in any order
"Bern" | {"AGE": 30}
"Oslo" | {"AGE": 33}
----
-- a record without a value has nothing to partition by
-- long
CREATE STREAM S (ID VARCHAR KEY, CITY VARCHAR) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM BY_CITY AS SELECT CITY, ID FROM S PARTITION BY CITY;
<<< people
"1" | null
"2" | {"city": "Rome"}
>>> BY_CITY in any order
null | null
"Rome" | {"ID": "2"}
