-- a stream is copied with its keys and times
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT * FROM S EMIT CHANGES;
<<< people
"a" | {"name": "Ann", "age": 30} | @1000
"b" | {"NAME": "Bob", "Age": 40, "more": true} | @500
null | {"name": "Nobody"} | @2000
>>> COPY
"a" | {"NAME": "Ann", "AGE": 30} | @1000
"b" | {"NAME": "Bob", "AGE": 40} | @500
null | {"NAME": "Nobody", "AGE": null} | @2000
----
-- columns get other names, in another order, and the key as well
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM RENAMED AS SELECT AGE AS YEARS, ID AS PERSON, NAME FROM S;
<<< people
"a" | {"name": "Ann", "age": 30}
>>> RENAMED
"a" | {"YEARS": 30, "NAME": "Ann"}
----
-- the key as a column of the value, by AS_VALUE
CREATE STREAM S (ID INT KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM WITH_KEY AS SELECT ID, AS_VALUE(ID) AS ID_COPY, NAME FROM S;
<<< people
7 | {"name": "Ann"}
-1 | {"name": null}
>>> WITH_KEY
7 | {"ID_COPY": 7, "NAME": "Ann"}
-1 | {"ID_COPY": -1, "NAME": null}
----
-- time, partition and offset of each record
-- long
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM WHEREABOUTS WITH (PARTITIONS=1) AS SELECT ID, ROWTIME AS T, ROWPARTITION AS P, ROWOFFSET AS O FROM S;
<<< people
"a" | {"name": "x"} | @1000 | p1
"b" | {"name": "x"} | @2000 | p1
"c" | {"name": "x"} | @3000 | p0
>>> WHEREABOUTS in any order
"a" | {"T": 1000, "P": 1, "O": 0}
"b" | {"T": 2000, "P": 1, "O": 1}
"c" | {"T": 3000, "P": 0, "O": 0}
----
-- expressions without a name are KSQL_COL_0 and so on
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM SUMS AS SELECT ID, A + B, A * B, 'x' FROM S;
<<< numbers
"k" | {"a": 2, "b": 3}
>>> SUMS
"k" | {"KSQL_COL_0": 5, "KSQL_COL_1": 6, "KSQL_COL_2": "x"}
----
-- names in backticks keep their case
-- long
CREATE STREAM S (`id` VARCHAR KEY, `firstName` VARCHAR) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM QUOTED AS SELECT `id`, `firstName` AS `first-name`, LEN(`firstName`) AS LETTERS FROM S;
<<< people
"a" | {"firstName": "Ann"}
>>> QUOTED
"a" | {"first-name": "Ann", "LETTERS": 3}
----
-- a star and more beside it
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM MORE AS SELECT *, A + B AS SUM FROM S;
<<< numbers
"k" | {"a": 2, "b": 3}
>>> MORE
"k" | {"A": 2, "B": 3, "SUM": 5}
----
-- structs are taken apart and made
-- long
-- real-time
CREATE STREAM S (ID VARCHAR KEY, ADDRESS STRUCT<CITY VARCHAR, PLACE STRUCT<LAT DOUBLE, LON DOUBLE>>) WITH (KAFKA_TOPIC='places', VALUE_FORMAT='JSON');
CREATE STREAM FLAT AS SELECT ID, ADDRESS->CITY AS CITY, ADDRESS->PLACE->LAT AS LAT, STRUCT(C := ADDRESS->CITY, N := 1) AS MADE FROM S;
<<< places
"a" | {"address": {"city": "Bern", "place": {"lat": 46.5, "lon": 7.25}}}
"b" | {"address": {"city": "Rome"}}
"c" | {"address": null}
>>> FLAT
"a" | {"CITY": "Bern", "LAT": 46.5, "MADE": {"C": "Bern", "N": 1}}
"b" | {"CITY": "Rome", "LAT": null, "MADE": {"C": "Rome", "N": 1}}
"c" | {"CITY": null, "LAT": null, "MADE": {"C": null, "N": 1}}
----
-- all fields of a struct by ->*
-- long
CREATE STREAM S (ID VARCHAR KEY, ADDRESS STRUCT<CITY VARCHAR, ZIP INT>) WITH (KAFKA_TOPIC='places', VALUE_FORMAT='JSON');
CREATE STREAM FLAT AS SELECT ID, ADDRESS->* FROM S;
<<< places
"a" | {"address": {"city": "Bern", "zip": 3000}}
>>> FLAT
"a" | {"CITY": "Bern", "ZIP": 3000}
----
-- arrays and maps are made
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM MADE AS SELECT ID, ARRAY[A, B, 3] AS ITEMS, MAP('a' := A, 'b' := B) AS BY_NAME FROM S;
<<< numbers
"k" | {"a": 1, "b": null}
>>> MADE
"k" | {"ITEMS": [1, null, 3], "BY_NAME": {"a": 1, "b": null}}
----
-- a type of its own name
-- long
CREATE TYPE ADDRESS AS STRUCT<CITY VARCHAR, ZIP INT>;
CREATE STREAM S (ID VARCHAR KEY, HOME ADDRESS, OTHERS ARRAY<ADDRESS>) WITH (KAFKA_TOPIC='places', VALUE_FORMAT='JSON');
CREATE STREAM CITIES AS SELECT ID, HOME->CITY AS HOME, OTHERS[1]->CITY AS OTHER FROM S;
<<< places
"a" | {"home": {"city": "Bern"}, "others": [{"city": "Basel", "zip": 4000}]}
"b" | {"home": {"city": "Rome"}, "others": []}
>>> CITIES
"a" | {"HOME": "Bern", "OTHER": "Basel"}
"b" | {"HOME": "Rome", "OTHER": null}
----
-- one query feeds the next, with keys and times
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM TWICE AS SELECT ID, A * 2 AS A FROM S;
CREATE STREAM FOUR_TIMES AS SELECT ID, A * 2 AS A FROM TWICE WHERE A > 2;
<<< numbers
"x" | {"a": 1} | @1000
"y" | {"a": 2} | @900
>>> FOUR_TIMES
"y" | {"A": 8} | @900
<<< numbers
"z" | {"a": 5} | @800
>>> FOUR_TIMES
"z" | {"A": 20} | @800
