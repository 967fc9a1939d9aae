-- what is no JSON goes to the dead letters as it came
-- real-time
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT * FROM S;
<<< numbers
"a" | ~{"n":
"b" | {"n": 1}
"c" | {"n": "many"}
"d" | [1]
>>> COPY
"b" | {"N": 1}
>>> dead letters
~a | ~{"n": | The value is not a JSON object.
~c | ~{"n": "many"} | Column N of the value is not of type INTEGER: many.
~d | ~[1] | The value is not a JSON object.
----
-- a null value passes, and a filter drops it
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT ID, N + 1 AS N FROM S;
CREATE STREAM KEPT AS SELECT * FROM S WHERE N IS NULL;
<<< numbers
"a" | null
"b" | {}
>>> COPY
"a" | null
"b" | {"N": null}
>>> KEPT
"b" | {"N": null}
----
-- numbers that are too large, or have a fraction, for their column
CREATE STREAM S (ID VARCHAR KEY, N INT, D DECIMAL(4,2)) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT * FROM S;
<<< numbers
"a" | {"n": 3000000000}
"b" | {"n": "12", "d": 1.5}
"c" | {"d": 123.4}
>>> COPY
"b" | {"N": 12, "D": 1.5}
>>> dead letters
~a | ~{"n": 3000000000} | Column N of the value is not of type INTEGER: 3000000000.
~c | ~{"d": 123.4} | Column D of the value is not of type DECIMAL(4, 2): 123.4.
----
-- a key of the wrong length
-- real-time
CREATE STREAM S (ID INT KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT * FROM S;
<<< numbers
~xy | {"n": 1}
1 | {"n": 2}
>>> COPY
1 | {"N": 2}
>>> dead letters
~xy | ~{"n": 1} | The key is not of type INTEGER as Kafka writes it: it has 2 bytes instead of 4.
----
-- lines with too many or too few fields
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='lines', VALUE_FORMAT='DELIMITED');
CREATE STREAM COPY AS SELECT * FROM S;
<<< lines
"1" | "1,2"
"2" | "1,2,3"
"3" | "1"
"4" | "1,x"
>>> COPY
"1" | "1,2"
>>> dead letters
~2 | ~1,2,3 | The value is not a line of 2 delimited fields.
~3 | ~1 | The value is not a line of 2 delimited fields.
~4 | ~1,x | Column B of the value is not of type INTEGER: x.
----
-- bytes that are no AVRO
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='AVRO');
CREATE STREAM COPY WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;
<<< numbers
"a" | {"N": 1}
"b" | ~no avro
"c" | {"N": 2}
>>> COPY
"a" | {"N": 1}
"c" | {"N": 2}
>>> dead letters
~b | ~no avro | The value is not in Confluent's wire format: it has no zero byte and schema id in front.
----
-- an aggregation leaves bad records out and reports them
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE SUMS AS SELECT ID, SUM(N) AS TOTAL FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 1}
"a" | ~oops
"a" | {"n": 2}
>>> SUMS as a table
"a" | {"TOTAL": 3}
>>> dead letters
~a | ~oops | The value is not a JSON object.
----
-- both sides of a join report their bad records
-- long
CREATE STREAM L (ID VARCHAR KEY, V INT) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V INT) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 1 SECOND ON L.ID = R.ID;
<<< left
"a" | {"v": 1} | @1000
"b" | ~bad left | @1000
<<< right
"a" | {"v": 2} | @2000
"b" | ~bad right | @2000
>>> J
"a" | {"LV": 1, "RV": 2} | @2000
>>> dead letters
~b | ~bad left | The value is not a JSON object.
~b | ~bad right | The value is not a JSON object.
----
-- a bad record of a table changes nothing in it
-- long
CREATE TABLE T (ID VARCHAR PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE COPY AS SELECT ID, N FROM T;
<<< table
"a" | {"n": 1}
"a" | ~oops
null | {"n": 3}
"b" | {"n": 2}
>>> COPY as a table
"a" | {"N": 1}
"b" | {"N": 2}
>>> dead letters
~a | ~oops | The value is not a JSON object.
