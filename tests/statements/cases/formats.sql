-- JSON becomes AVRO with a schema of the columns
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT, TAGS ARRAY<VARCHAR>) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (VALUE_FORMAT='AVRO') AS SELECT * FROM S;
<<< people
"a" | {"name": "Ann", "age": 30, "tags": ["x", null]}
"b" | {"name": null}
"c" | null
>>> A
"a" | {"NAME": "Ann", "AGE": 30, "TAGS": ["x", null]}
"b" | {"NAME": null, "AGE": null, "TAGS": null}
"c" | null
----
-- AVRO becomes JSON
-- real-time
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT, P STRUCT<X DOUBLE, Y BIGINT>) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='AVRO');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< people
"a" | {"NAME": "Ann", "AGE": 30, "P": {"X": 1.5, "Y": 2}}
"b" | {"NAME": "Bob", "AGE": null, "P": null}
>>> J
"a" | {"NAME": "Ann", "AGE": 30, "P": {"X": 1.5, "Y": 2}}
"b" | {"NAME": "Bob", "AGE": null, "P": null}
----
-- columns come from the schema in the registry
CREATE STREAM S (ID VARCHAR KEY) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='AVRO');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S WHERE AGE > 20;
<<< schema of people-value
{"type": "record", "name": "Person", "fields": [{"name": "NAME", "type": "string"}, {"name": "AGE", "type": ["null", "int"]}]}
<<< people
"a" | {"NAME": "Ann", "AGE": 30}
"b" | {"NAME": "Bob", "AGE": null}
"c" | {"NAME": "Cat", "AGE": 25}
>>> J
"a" | {"NAME": "Ann", "AGE": 30}
"c" | {"NAME": "Cat", "AGE": 25}
----
-- fields of AVRO match without case
CREATE STREAM S (ID VARCHAR KEY) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='AVRO');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S WHERE AGE > 20;
<<< schema of people-value
{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"]}]}
<<< people
"a" | {"name": "Ann", "age": 30}
"b" | {"name": "Bob", "age": null}
"c" | {"name": "Cat", "age": 25}
>>> J
"a" | {"NAME": "Ann", "AGE": 30}
"c" | {"NAME": "Cat", "AGE": 25}
----
-- records of an old and a new schema in one topic
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='AVRO');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< schema of people-value
{"type": "record", "name": "Person", "fields": [{"name": "NAME", "type": "string"}]}
<<< people
"a" | {"NAME": "Ann"}
>>> J
"a" | {"NAME": "Ann", "AGE": null}
<<< schema of people-value
{"type": "record", "name": "Person", "fields": [{"name": "NAME", "type": "string"}, {"name": "AGE", "type": "int", "default": 0}]}
<<< people
"b" | {"NAME": "Bob", "AGE": 40}
>>> J
"b" | {"NAME": "Bob", "AGE": 40}
----
-- AVRO on both sides, keys too
CREATE STREAM S (ID BIGINT KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='people', FORMAT='AVRO');
CREATE STREAM COPY AS SELECT ID, UCASE(NAME) AS NAME FROM S;
<<< people
5000000000 | {"NAME": "Ann"}
null | {"NAME": "Bob"}
>>> COPY
5000000000 | {"NAME": "ANN"}
null | {"NAME": "BOB"}
----
-- dates, times, decimals and bytes in AVRO
CREATE STREAM S (ID VARCHAR KEY, D DATE, T TIME, TS TIMESTAMP, B BYTES) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (VALUE_FORMAT='AVRO') AS SELECT * FROM S;
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM A;
<<< values
"a" | {"d": 18721, "t": 3661000, "ts": 1617498123000, "b": "SGk="}
>>> A
"a" | {"D": 18721, "T": 3661000, "TS": 1617498123000, "B": "Hi"}
>>> J
"a" | {"D": 18721, "T": 3661000, "TS": 1617498123000, "B": "SGk="}
----
-- DELIMITED in and out, with quotes where need be
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT, D DOUBLE) WITH (KAFKA_TOPIC='lines', VALUE_FORMAT='DELIMITED');
CREATE STREAM COPY AS SELECT * FROM S;
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< lines
"1" | "Ann,30,1.5"
"2" | "\"Smith, Bob\",,2"
>>> COPY
"1" | "Ann,30,1.5"
"2" | "\"Smith, Bob\",,2.0"
>>> J
"1" | {"NAME": "Ann", "AGE": 30, "D": 1.5}
"2" | {"NAME": "Smith, Bob", "AGE": null, "D": 2.0}
----
-- DELIMITED with another delimiter
CREATE STREAM S (ID VARCHAR KEY, NAME VARCHAR, AGE INT) WITH (KAFKA_TOPIC='lines', VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='|');
CREATE STREAM TABS WITH (VALUE_DELIMITER='TAB') AS SELECT * FROM S;
<<< lines
"1" | "Ann|30"
>>> TABS
"1" | "Ann\t30"
----
-- values of a single column in Kafka's own format
-- long
CREATE STREAM S (ID INT KEY, N BIGINT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='KAFKA');
CREATE STREAM D AS SELECT ID, N / 2e0 AS HALF FROM S;
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< numbers
1 | 9000000000
-2 | -1
3 | null
>>> D
1 | 4500000000.0
-2 | -0.5
3 | null
>>> J
1 | {"N": 9000000000}
-2 | {"N": -1}
3 | null
----
-- keys of each simple type in Kafka's own format
-- long
CREATE STREAM S (ID DOUBLE KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM I AS SELECT CAST(ID AS INT) AS I, N FROM S PARTITION BY CAST(ID AS INT);
CREATE STREAM T AS SELECT CAST(ID AS VARCHAR) AS T, N FROM S PARTITION BY CAST(ID AS VARCHAR);
<<< numbers
-1.5 | {"n": 1}
>>> I
-1 | {"N": 1}
>>> T
"-1.5" | {"N": 1}
----
-- keys of several columns in JSON and DELIMITED
-- long
CREATE STREAM S (A INT KEY, B VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE STREAM LINES WITH (KEY_FORMAT='DELIMITED') AS SELECT * FROM S;
CREATE STREAM BACK WITH (KEY_FORMAT='JSON') AS SELECT B, A, N + 1 AS N FROM LINES;
<<< numbers
{"A": 1, "B": "x"} | {"n": 5}
>>> LINES
"1,x" | {"N": 5}
>>> BACK
{"A": 1, "B": "x"} | {"N": 6}
----
-- a key in JSON of one column is a bare value
-- long
CREATE STREAM S (ID INT KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM J WITH (KEY_FORMAT='JSON') AS SELECT * FROM S;
<<< numbers
7 | {"n": 1}
null | {"n": 2}
>>> J
7 | {"N": 1}
null | {"N": 2}
----
-- a stream without a key
-- long
CREATE STREAM S (N INT) WITH (KAFKA_TOPIC='numbers', KEY_FORMAT='NONE', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT N + 1 AS N FROM S;
<<< numbers
null | {"n": 1}
~ignored | {"n": 2}
>>> COPY
null | {"N": 2}
null | {"N": 3}
----
-- a single value that is not wrapped, read and written
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false);
CREATE STREAM WRAPPED WITH (WRAP_SINGLE_VALUE=true) AS SELECT ID, N * 2 AS N FROM S;
CREATE STREAM BARE WITH (WRAP_SINGLE_VALUE=false) AS SELECT ID, N * 3 AS N FROM S;
<<< numbers
"a" | 5
"b" | null
>>> WRAPPED
"a" | {"N": 10}
"b" | null
>>> BARE
"a" | 15
"b" | null
----
-- a single array that is not wrapped
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<INT>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false);
CREATE STREAM SIZES AS SELECT ID, ARRAY_LENGTH(L) AS N FROM S;
<<< lists
"a" | [1, 2, 3]
"b" | []
>>> SIZES
"a" | {"N": 3}
"b" | {"N": 0}
----
-- a single value in AVRO that is not wrapped
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM BARE WITH (VALUE_FORMAT='AVRO', WRAP_SINGLE_VALUE=false) AS SELECT ID, N FROM S;
<<< numbers
"a" | {"n": 5}
>>> BARE
"a" | 5
----
-- nested values in JSON keep their shape
-- long
CREATE STREAM S (ID VARCHAR KEY, P STRUCT<L ARRAY<STRUCT<M MAP<VARCHAR, INT>>>>, B BOOLEAN, N DECIMAL(5,2)) WITH (KAFKA_TOPIC='nested', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT * FROM S;
<<< nested
"a" | {"p": {"l": [{"m": {"x": 1}}, {"m": null}, null]}, "b": true, "n": "1.25"}
>>> COPY
"a" | {"P": {"L": [{"M": {"x": 1}}, {"M": null}, null]}, "B": true, "N": 1.25}
----
-- keys that are booleans, decimals and times in JSON
-- long
CREATE STREAM S (ID VARCHAR KEY, B BOOLEAN, N DECIMAL(5,2), T TIMESTAMP, V INT) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE STREAM BOOLEANS WITH (KEY_FORMAT='JSON') AS SELECT B, V FROM S PARTITION BY B;
CREATE STREAM DECIMALS WITH (KEY_FORMAT='JSON') AS SELECT N, V FROM S PARTITION BY N;
CREATE TABLE BY_TIME WITH (KEY_FORMAT='JSON') AS SELECT T, COUNT(*) AS N FROM S GROUP BY T;
<<< values
"a" | {"b": true, "n": 1.25, "t": 1617498123000, "v": 1}
>>> BOOLEANS
true | {"V": 1}
>>> DECIMALS
1.25 | {"V": 1}
>>> BY_TIME as a table
1617498123000 | {"N": 1}
----
-- a value written with a schema of another name
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (VALUE_FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME='org.example.Number') AS SELECT * FROM S;
CREATE STREAM B WITH (VALUE_FORMAT='JSON') AS SELECT ID, N + 1 AS N FROM A;
<<< numbers
"a" | {"n": 1}
>>> A
"a" | {"N": 1}
>>> B
"a" | {"N": 2}
----
-- dates and times in DELIMITED
-- long
CREATE STREAM S (ID VARCHAR KEY, T TIMESTAMP, D DATE, C TIME) WITH (KAFKA_TOPIC='times', VALUE_FORMAT='DELIMITED');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< times
"a" | "1617498123000,18721,3661000"
>>> J
"a" | {"T": 1617498123000, "D": 18721, "C": 3661000}
