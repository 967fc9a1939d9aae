-- counts and sums by a column, then changes of one group only
-- long
CREATE STREAM SALES (ID VARCHAR KEY, SHOP VARCHAR, AMOUNT INT) WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON');
CREATE TABLE SHOPS AS SELECT SHOP, COUNT(*) AS N, SUM(AMOUNT) AS TOTAL FROM SALES GROUP BY SHOP EMIT CHANGES;
<<< sales
"1" | {"shop": "east", "amount": 5} | @1000
"2" | {"shop": "west", "amount": 7} | @2000
"3" | {"shop": "east", "amount": 1} | @1500
"4" | {"shop": null, "amount": 100} | @3000
>>> SHOPS as a table
"east" | {"N": 2, "TOTAL": 6} | @1500
"west" | {"N": 1, "TOTAL": 7} | @2000
<<< sales
"5" | {"shop": "west", "amount": null} | @5000
>>> SHOPS as a table
"west" | {"N": 2, "TOTAL": 7} | @5000
----
-- HAVING takes a group out again with a tombstone
CREATE STREAM MOVES (ACCOUNT VARCHAR KEY, AMOUNT INT) WITH (KAFKA_TOPIC='moves', VALUE_FORMAT='JSON');
CREATE TABLE RICH AS SELECT ACCOUNT, SUM(AMOUNT) AS BALANCE FROM MOVES GROUP BY ACCOUNT HAVING SUM(AMOUNT) > 100;
<<< moves
"a" | {"amount": 150}
"b" | {"amount": 50}
>>> RICH as a table
"a" | {"BALANCE": 150}
<<< moves
"a" | {"amount": -60}
"b" | {"amount": 60}
>>> RICH as a table
"a" | null
"b" | {"BALANCE": 110}
----
-- GROUP BY the key itself
-- long
CREATE STREAM S (ID INT KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, COUNT(*) AS N, COUNT(N) AS NOT_NULL FROM S GROUP BY ID;
<<< numbers
1 | {"n": 1}
2 | {"n": 5}
1 | {"n": null}
1 | null
null | {"n": 9}
>>> R as a table
1 | {"N": 2, "NOT_NULL": 1}
2 | {"N": 1, "NOT_NULL": 1}
----
-- minimum, maximum and average
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT, D DOUBLE, T VARCHAR) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, MIN(N) AS LOW, MAX(N) AS HIGH, AVG(N) AS MEAN, MAX(D) AS HIGH_D, MIN(T) AS FIRST, MAX(T) AS LAST FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 1, "d": 0.5, "t": "y"}
"a" | {"n": 4, "d": -2, "t": "x"}
"a" | {"n": null, "d": null, "t": null}
>>> R as a table
"a" | {"LOW": 1, "HIGH": 4, "MEAN": 2.5, "HIGH_D": 0.5, "FIRST": "x", "LAST": "y"}
<<< numbers
"a" | {"n": -1, "d": 7, "t": "z"}
>>> R as a table
"a" | {"LOW": -1, "HIGH": 4, "MEAN": 1.3333333333333333, "HIGH_D": 7.0, "FIRST": "x", "LAST": "z"}
----
-- sums of each type, and of nothing but nulls
-- long
CREATE STREAM S (ID VARCHAR KEY, I INT, L BIGINT, D DOUBLE, N DECIMAL(5,2)) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, SUM(I) AS I, SUM(L) AS L, SUM(D) AS D, SUM(N) AS N FROM S GROUP BY ID;
<<< numbers
"a" | {"i": 1, "l": 5000000000, "d": 0.5, "n": 1.25}
"a" | {"i": 2, "l": 5000000000, "d": 0.25, "n": 2.5}
"b" | {"i": null, "l": null, "d": null}
>>> R as a table
"a" | {"I": 3, "L": 10000000000, "D": 0.75, "N": 3.75}
"b" | {"I": 0, "L": 0, "D": 0.0, "N": 0.0}
----
-- the first and the latest by offset, nulls left out unless asked for
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, LATEST_BY_OFFSET(N) AS LAST, LATEST_BY_OFFSET(N, false) AS LAST_NULL, EARLIEST_BY_OFFSET(N) AS FIRST, LATEST_BY_OFFSET(N, 2) AS LAST_TWO, EARLIEST_BY_OFFSET(N, 2) AS FIRST_TWO FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 3} | @3000
"a" | {"n": 1} | @2000
"a" | {"n": 2} | @1000
"a" | {"n": null} | @500
>>> R as a table
"a" | {"LAST": 2, "LAST_NULL": null, "FIRST": 3, "LAST_TWO": [1, 2], "FIRST_TWO": [3, 1]} | @3000
<<< numbers
"a" | {"n": 7} | @400
>>> R as a table
"a" | {"LAST": 7, "LAST_NULL": 7, "FIRST": 3, "LAST_TWO": [2, 7], "FIRST_TWO": [3, 1]} | @3000
----
-- lists and sets of what came
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, COLLECT_LIST(T) AS EVERY, COLLECT_SET(T) AS DIFFERENT FROM S GROUP BY ID;
<<< texts
"a" | {"t": "x"}
"a" | {"t": "y"}
"a" | {"t": "x"}
>>> R as a table
"a" | {"EVERY": ["x", "y", "x"], "DIFFERENT": ["x", "y"]}
<<< texts
"a" | {"t": null}
>>> R as a table
"a" | {"EVERY": ["x", "y", "x", null], "DIFFERENT": ["x", "y", null]}
----
-- the highest, with and without repetitions
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, TOPK(N, 3) AS TOP, TOPKDISTINCT(N, 3) AS TOP_DISTINCT FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 5}
"a" | {"n": 9}
"a" | {"n": 9}
"a" | {"n": null}
"a" | {"n": 1}
"b" | {"n": 2}
>>> R as a table
"a" | {"TOP": [9, 9, 5], "TOP_DISTINCT": [9, 5, 1]}
"b" | {"TOP": [2], "TOP_DISTINCT": [2]}
----
-- histograms and counts of what is different
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, HISTOGRAM(T) AS H, COUNT_DISTINCT(T) AS N FROM S GROUP BY ID;
<<< texts
"a" | {"t": "x"}
"a" | {"t": "y"}
"a" | {"t": "x"}
"a" | {"t": null}
>>> R as a table
"a" | {"H": {"x": 2, "y": 1}, "N": 2}
----
-- deviation and correlation
-- long
CREATE STREAM S (ID VARCHAR KEY, X DOUBLE, Y DOUBLE) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, STDDEV_SAMP(X) AS S, ROUND(CORRELATION(X, Y), 3) AS C FROM S GROUP BY ID;
<<< numbers
"a" | {"x": 1, "y": 10}
"a" | {"x": 2, "y": 20}
"a" | {"x": 3, "y": 30}
>>> R as a table
"a" | {"S": 1.0, "C": 1.0}
----
-- sums over the elements of lists
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<INT>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, SUM_LIST(L) AS TOTAL FROM S GROUP BY ID;
<<< lists
"a" | {"l": [1, 2]}
"a" | {"l": [3, null]}
"a" | {"l": null}
>>> R as a table
"a" | {"TOTAL": 6}
----
-- GROUP BY several columns
-- long
CREATE STREAM S (ID VARCHAR KEY, A VARCHAR, B INT, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R WITH (KEY_FORMAT='JSON') AS SELECT A, B, SUM(N) AS TOTAL FROM S GROUP BY A, B;
<<< numbers
"1" | {"a": "x", "b": 1, "n": 1}
"2" | {"a": "x", "b": 2, "n": 2}
"3" | {"a": "x", "b": 1, "n": 4}
"4" | {"a": "x", "b": null, "n": 8}
>>> R as a table
{"A": "x", "B": 1} | {"TOTAL": 5}
{"A": "x", "B": 2} | {"TOTAL": 2}
----
-- GROUP BY several columns with a delimited key
-- long
CREATE STREAM S (ID VARCHAR KEY, A VARCHAR, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R WITH (KEY_FORMAT='DELIMITED') AS SELECT B, A, COUNT(*) AS N FROM S GROUP BY A, B;
<<< numbers
"1" | {"a": "x", "b": 1}
"2" | {"a": "x", "b": 1}
>>> R as a table
"x,1" | {"N": 2}
----
-- GROUP BY an expression
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT LEN(T) AS LETTERS, COUNT(*) AS N, COLLECT_LIST(T) AS EVERY FROM S GROUP BY LEN(T);
<<< texts
"1" | {"t": "ab"}
"2" | {"t": "c"}
"3" | {"t": "de"}
>>> R as a table
2 | {"N": 2, "EVERY": ["ab", "de"]}
1 | {"N": 1, "EVERY": ["c"]}
----
-- GROUP BY a field of a struct, and only what passes WHERE counts
-- long
CREATE STREAM S (ID VARCHAR KEY, P STRUCT<CITY VARCHAR>, N INT) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT P->CITY AS CITY, SUM(N) AS TOTAL FROM S WHERE N > 0 GROUP BY P->CITY;
<<< people
"1" | {"p": {"city": "Bern"}, "n": 1}
"2" | {"p": {"city": "Bern"}, "n": -5}
"3" | {"p": {"city": "Rome"}, "n": -5}
"4" | {"p": null, "n": 5}
>>> R as a table
"Bern" | {"TOTAL": 1}
----
-- expressions of aggregates
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, SUM(A * B) / COUNT(*) AS MEAN, MAX(A) - MIN(A) AS SPAN, UCASE('n') + CAST(COUNT(*) AS VARCHAR) AS LABEL, CASE WHEN SUM(A) > 2 THEN 'much' ELSE 'little' END AS HOW FROM S GROUP BY ID;
<<< numbers
"a" | {"a": 1, "b": 10}
"a" | {"a": 2, "b": 20}
>>> R as a table
"a" | {"MEAN": 25, "SPAN": 1, "LABEL": "N2", "HOW": "much"}
----
-- HAVING on an aggregate that is not selected
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, SUM(N) AS TOTAL FROM S GROUP BY ID HAVING COUNT(*) = 2;
<<< numbers
"a" | {"n": 1}
"b" | {"n": 1}
"a" | {"n": 2}
>>> R as a table
"a" | {"TOTAL": 3}
<<< numbers
"a" | {"n": 4}
"b" | {"n": 4}
>>> R as a table
"a" | null
"b" | {"TOTAL": 5}
<<< numbers
"a" | {"n": 4}
"c" | {"n": 4}
>>> R as a table
----
-- the key as a value too, in an aggregation
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R WITH (VALUE_FORMAT='AVRO') AS SELECT ID, AS_VALUE(ID) AS NAME, COUNT(*) AS N FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 1}
"a" | {"n": 1}
>>> R as a table
"a" | {"NAME": "a", "N": 2}
----
-- an aggregation of a stream of three partitions
-- long
CREATE STREAM S (ID VARCHAR KEY, G VARCHAR, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE TABLE R AS SELECT G, SUM(N) AS TOTAL, LATEST_BY_OFFSET(N) AS LAST FROM S GROUP BY G;
<<< numbers
"1" | {"g": "x", "n": 1} | @1000 | p0
"2" | {"g": "x", "n": 2} | @3000 | p1
"3" | {"g": "y", "n": 4} | @2000 | p2
"4" | {"g": "x", "n": 8} | @2000 | p2
>>> R as a table
"x" | {"TOTAL": 11, "LAST": 2}
"y" | {"TOTAL": 4, "LAST": 4}
----
-- a table of a table's rows that pass a filter
-- long
CREATE TABLE T (ID VARCHAR PRIMARY KEY, N INT, T VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE BIG AS SELECT ID, N, UCASE(T) AS T FROM T WHERE N > 10;
<<< table
"a" | {"n": 20, "t": "x"}
"b" | {"n": 5, "t": "y"}
"c" | {"n": 30, "t": "z"}
>>> BIG as a table
"a" | {"N": 20, "T": "X"}
"c" | {"N": 30, "T": "Z"}
<<< table
"a" | {"n": 1, "t": "x"}
"b" | {"n": 11, "t": "y"}
"c" | null
>>> BIG as a table
"a" | null
"b" | {"N": 11, "T": "Y"}
"c" | null
----
-- a table is counted by another column, and its changes are taken back
-- long
CREATE TABLE T (ID VARCHAR PRIMARY KEY, CITY VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE CITIES AS SELECT CITY, COUNT(*) AS N FROM T GROUP BY CITY;
<<< table
"a" | {"city": "Bern"}
"b" | {"city": "Bern"}
>>> CITIES as a table
"Bern" | {"N": 2}
<<< table
"a" | {"city": "Rome"}
>>> CITIES as a table
"Bern" | {"N": 1}
"Rome" | {"N": 1}
----
-- sums over a table follow its changes and deletions
-- long
CREATE TABLE T (ID VARCHAR PRIMARY KEY, CITY VARCHAR, N INT) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE CITIES AS SELECT CITY, SUM(N) AS TOTAL, COUNT(*) AS ROWS_THERE FROM T GROUP BY CITY;
<<< table
"a" | {"city": "Bern", "n": 1}
"b" | {"city": "Bern", "n": 2}
"c" | {"city": "Rome", "n": 4}
>>> CITIES as a table
"Bern" | {"TOTAL": 3, "ROWS_THERE": 2}
"Rome" | {"TOTAL": 4, "ROWS_THERE": 1}
<<< table
"a" | {"city": "Bern", "n": 10}
"d" | {"city": "Rome", "n": 8}
>>> CITIES as a table
"Bern" | {"TOTAL": 12, "ROWS_THERE": 2}
"Rome" | {"TOTAL": 12, "ROWS_THERE": 2}
<<< table
"b" | null
"c" | {"city": "Bern", "n": 4}
>>> CITIES as a table
"Bern" | {"TOTAL": 14, "ROWS_THERE": 2}
"Rome" | {"TOTAL": 8, "ROWS_THERE": 1}
----
-- an aggregate without a name
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE TABLE R AS SELECT ID, COUNT(*), SUM(N + 1) FROM S GROUP BY ID;
<<< numbers
"a" | {"n": 1}
"a" | {"n": null}
>>> R as a table
"a" | {"KSQL_COL_0": 2, "KSQL_COL_1": 2}
----
-- a struct as a key
-- long
CREATE STREAM S (ID VARCHAR KEY, P STRUCT<X INT, Y VARCHAR>, V INT) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE TABLE R WITH (KEY_FORMAT='JSON') AS SELECT P, SUM(V) AS TOTAL FROM S GROUP BY P;
<<< values
"a" | {"p": {"x": 1, "y": "z"}, "v": 1}
"b" | {"p": {"x": 1, "y": "z"}, "v": 2}
"c" | {"p": {"x": 2, "y": "z"}, "v": 4}
>>> R as a table
{"X": 1, "Y": "z"} | {"TOTAL": 3}
{"X": 2, "Y": "z"} | {"TOTAL": 4}
----
-- a table of three partitions is filtered on its key
-- long
CREATE TABLE T (ID INT PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE TABLE R AS SELECT ID, N FROM T WHERE ID > 1;
<<< table
1 | {"n": 1}
2 | {"n": 2}
3 | {"n": 3}
>>> R as a table
2 | {"N": 2}
3 | {"N": 3}
<<< table
2 | null
1 | {"n": 5}
>>> R as a table
2 | null
----
-- a group of a table that has lost all its rows stays, with nothing in it
-- long
CREATE TABLE T (ID VARCHAR PRIMARY KEY, CITY VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE CITIES AS SELECT CITY, COUNT(*) AS N FROM T GROUP BY CITY;
<<< table
"a" | {"city": "Bern"}
>>> CITIES as a table
"Bern" | {"N": 1}
<<< table
"a" | null
>>> CITIES as a table
"Bern" | {"N": 0}
