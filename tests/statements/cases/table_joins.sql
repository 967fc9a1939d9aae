-- records of a stream with the rows of a table
-- long
CREATE STREAM ORDERS (ID VARCHAR KEY, USERID VARCHAR, N INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE USERS (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT O.USERID AS USERID, O.ID AS ORDERID, U.NAME AS NAME, O.N AS N FROM ORDERS O JOIN USERS U ON O.USERID = U.ID;
<<< users
"u1" | {"name": "Ann"}
"u2" | {"name": "Bob"}
<<< orders
"1" | {"userid": "u1", "n": 1} | @1000
"2" | {"userid": "u3", "n": 2} | @2000
"3" | {"userid": null, "n": 3} | @3000
"4" | {"userid": "u2", "n": 4} | @4000
>>> J in any order
"u1" | {"ORDERID": "1", "NAME": "Ann", "N": 1} | @1000
"u2" | {"ORDERID": "4", "NAME": "Bob", "N": 4} | @4000
----
-- the table's updates and tombstones count from then on
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT S.ID AS ID, N, NAME FROM S LEFT JOIN T ON S.ID = T.ID;
<<< table
"a" | {"name": "old"}
<<< stream
"a" | {"n": 1}
"b" | {"n": 2}
>>> J in any order
"a" | {"N": 1, "NAME": "old"}
"b" | {"N": 2, "NAME": null}
<<< table
"a" | {"name": "new"}
"b" | {"name": "there"}
=== settled
<<< stream
"a" | {"n": 3}
"b" | {"n": 4}
>>> J in any order
"a" | {"N": 3, "NAME": "new"}
"b" | {"N": 4, "NAME": "there"}
<<< table
"a" | null
=== settled
<<< stream
"a" | {"n": 5}
>>> J
"a" | {"N": 5, "NAME": null}
----
-- an inner join with a row that was deleted gives nothing
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT S.ID AS ID, N, NAME FROM S JOIN T ON S.ID = T.ID;
<<< table
"a" | {"name": "x"}
"a" | null
"b" | {"name": "y"}
<<< stream
"a" | {"n": 1}
"b" | {"n": 2}
"b" | null
>>> J
"b" | {"N": 2, "NAME": "y"}
----
-- tables of several partitions, streams of others
-- long
CREATE STREAM S (ID VARCHAR KEY, REF INT, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE T (ID INT PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE STREAM J AS SELECT S.REF AS REF, S.N AS N, T.NAME AS NAME FROM S JOIN T ON S.REF = T.ID;
<<< table
1 | {"name": "one"}
2 | {"name": "two"}
3 | {"name": "three"}
<<< stream
"a" | {"ref": 3, "n": 1}
"b" | {"ref": 1, "n": 2}
>>> J in any order
3 | {"N": 1, "NAME": "three"}
1 | {"N": 2, "NAME": "one"}
----
-- a star of a stream and a table
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT * FROM S JOIN T ON S.ID = T.ID WHERE T.NAME LIKE 'A%';
<<< table
"a" | {"name": "Ann"}
"b" | {"name": "Bob"}
<<< stream
"a" | {"n": 1}
"b" | {"n": 2}
>>> J
"a" | {"S_N": 1, "T_ID": "a", "T_NAME": "Ann"}
----
-- a stream with a table that another query makes
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE STREAM ASKED (ID VARCHAR KEY, Q VARCHAR) WITH (KAFKA_TOPIC='asked', VALUE_FORMAT='JSON');
CREATE TABLE SUMS AS SELECT ID, SUM(N) AS TOTAL FROM S GROUP BY ID;
CREATE STREAM ANSWERS AS SELECT ASKED.ID AS ID, Q, TOTAL FROM ASKED LEFT JOIN SUMS ON ASKED.ID = SUMS.ID;
<<< stream
"a" | {"n": 1}
"a" | {"n": 2}
=== settled
<<< asked
"a" | {"q": "x"}
"b" | {"q": "y"}
>>> ANSWERS in any order
"a" | {"Q": "x", "TOTAL": 3}
"b" | {"Q": "y", "TOTAL": null}
<<< stream
"a" | {"n": 3}
=== settled
<<< asked
"a" | {"q": "z"}
>>> ANSWERS
"a" | {"Q": "z", "TOTAL": 6}
----
-- a stream with two tables
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, A VARCHAR) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE U (ID VARCHAR PRIMARY KEY, B VARCHAR) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT S.ID AS ID, N, A, B FROM S JOIN T ON S.ID = T.ID LEFT JOIN U ON S.ID = U.ID;
<<< t
"a" | {"a": "t1"}
"b" | {"a": "t2"}
<<< u
"a" | {"b": "u1"}
"c" | {"b": "u3"}
<<< stream
"a" | {"n": 1}
"b" | {"n": 2}
"c" | {"n": 3}
>>> J in any order
"a" | {"N": 1, "A": "t1", "B": "u1"}
"b" | {"N": 2, "A": "t2", "B": null}
----
-- a joined stream is aggregated in the same query
-- long
CREATE STREAM S (ID VARCHAR KEY, REF VARCHAR, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, CITY VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE CITIES AS SELECT T.CITY AS CITY, SUM(S.N) AS TOTAL FROM S JOIN T ON S.REF = T.ID GROUP BY T.CITY;
<<< table
"u" | {"city": "Bern"}
"v" | {"city": "Bern"}
"w" | {"city": "Rome"}
<<< stream
"1" | {"ref": "u", "n": 1}
"2" | {"ref": "v", "n": 2}
"3" | {"ref": "w", "n": 4}
"4" | {"ref": "x", "n": 8}
>>> CITIES as a table
"Bern" | {"TOTAL": 3}
"Rome" | {"TOTAL": 4}
----
-- a global table that changes while the query runs
-- long
CREATE STREAM S (ID VARCHAR KEY, REF VARCHAR) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON', GLOBAL=true);
CREATE STREAM J AS SELECT S.REF AS REF, S.ID AS ID, NAME FROM S LEFT JOIN T ON S.REF = T.ID;
<<< table
"x" | {"name": "old"}
<<< stream
"1" | {"ref": "x"}
"2" | {"ref": "y"}
>>> J in any order
"x" | {"ID": "1", "NAME": "old"}
"y" | {"ID": "2", "NAME": null}
<<< table
"x" | {"name": "new"}
"y" | {"name": "there"}
=== settled
<<< stream
"3" | {"ref": "x"}
"4" | {"ref": "y"}
>>> J in any order
"x" | {"ID": "3", "NAME": "new"}
"y" | {"ID": "4", "NAME": "there"}
<<< table
"x" | null
=== settled
<<< stream
"5" | {"ref": "x"}
>>> J
"x" | {"ID": "5", "NAME": null}
----
-- an inner join with a global table of another partition count
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON', PARTITIONS=3, GLOBAL=true);
CREATE STREAM J AS SELECT S.ID AS ID, N, NAME FROM S JOIN T ON S.ID = T.ID;
<<< table
"a" | {"name": "x"}
"b" | {"name": "y"}
<<< stream
"b" | {"n": 1}
"c" | {"n": 2}
>>> J
"b" | {"N": 1, "NAME": "y"}
----
-- two tables by their keys, with updates and tombstones
-- long
CREATE TABLE L (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE TABLE R (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE TABLE J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"}
"b" | {"v": "l2"}
<<< right
"a" | {"v": "r1"}
"c" | {"v": "r3"}
>>> J as a table
"a" | {"LV": "l1", "RV": "r1"}
<<< right
"a" | {"v": "r2"}
"b" | {"v": "r4"}
>>> J as a table
"a" | {"LV": "l1", "RV": "r2"}
"b" | {"LV": "l2", "RV": "r4"}
<<< left
"a" | null
>>> J as a table
"a" | null
----
-- LEFT JOIN of tables
-- long
CREATE TABLE L (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE TABLE R (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE TABLE J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L LEFT JOIN R ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"}
"b" | {"v": "l2"}
<<< right
"a" | {"v": "r1"}
>>> J as a table
"a" | {"LV": "l1", "RV": "r1"}
"b" | {"LV": "l2", "RV": null}
<<< right
"a" | null
"b" | {"v": "r2"}
>>> J as a table
"a" | {"LV": "l1", "RV": null}
"b" | {"LV": "l2", "RV": "r2"}
----
-- FULL OUTER JOIN of tables
-- long
CREATE TABLE L (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE TABLE R (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE TABLE J AS SELECT ROWKEY AS ID, L.V AS LV, R.V AS RV FROM L FULL OUTER JOIN R ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"}
"b" | {"v": "l2"}
<<< right
"a" | {"v": "r1"}
"c" | {"v": "r3"}
>>> J as a table
"a" | {"LV": "l1", "RV": "r1"}
"b" | {"LV": "l2", "RV": null}
"c" | {"LV": null, "RV": "r3"}
<<< left
"a" | null
"b" | null
>>> J as a table
"a" | {"LV": null, "RV": "r1"}
"b" | null
----
-- two tables by a foreign key
-- long
CREATE TABLE ORDERS (ID INT PRIMARY KEY, USERID VARCHAR, N INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE USERS (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE TABLE J AS SELECT O.ID AS ID, N, NAME FROM ORDERS O JOIN USERS U ON O.USERID = U.ID;
<<< orders
1 | {"userid": "u", "n": 5}
2 | {"userid": "u", "n": 6}
3 | {"userid": "w", "n": 7}
<<< users
"u" | {"name": "Ann"}
>>> J as a table
1 | {"N": 5, "NAME": "Ann"}
2 | {"N": 6, "NAME": "Ann"}
<<< users
"u" | {"name": "Anna"}
"w" | {"name": "Will"}
<<< orders
2 | {"userid": "x", "n": 6}
>>> J as a table
1 | {"N": 5, "NAME": "Anna"}
2 | null
3 | {"N": 7, "NAME": "Will"}
----
-- the documentation's table of stream-table joins
-- long
CREATE STREAM S (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE STREAM I AS SELECT S.ID AS ID, S.V AS LV, T.V AS RV FROM S JOIN T ON S.ID = T.ID;
CREATE STREAM L AS SELECT S.ID AS ID, S.V AS LV, T.V AS RV FROM S LEFT JOIN T ON S.ID = T.ID;
<<< table
"k" | null
<<< stream
"k" | null
"k" | {"v": "A"}
>>> I
>>> L
"k" | {"LV": "A", "RV": null}
<<< table
"k" | {"v": "a"}
=== settled
<<< stream
"k" | {"v": "B"}
>>> I
"k" | {"LV": "B", "RV": "a"}
>>> L
"k" | {"LV": "B", "RV": "a"}
<<< table
"k" | {"v": "b"}
"k" | null
<<< stream
"k" | null
=== settled
<<< stream
"k" | {"v": "C"}
>>> I
>>> L
"k" | {"LV": "C", "RV": null}
<<< table
"k" | {"v": "c"}
"k" | null
"k" | {"v": "d"}
=== settled
<<< stream
"k" | {"v": "D"}
>>> I
"k" | {"LV": "D", "RV": "d"}
>>> L
"k" | {"LV": "D", "RV": "d"}
----
-- the documentation's table of table-table joins
-- long
CREATE TABLE A (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE TABLE B (ID VARCHAR PRIMARY KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE TABLE I AS SELECT A.ID AS ID, A.V AS LV, B.V AS RV FROM A JOIN B ON A.ID = B.ID;
CREATE TABLE L AS SELECT A.ID AS ID, A.V AS LV, B.V AS RV FROM A LEFT JOIN B ON A.ID = B.ID;
CREATE TABLE F AS SELECT ROWKEY AS ID, A.V AS LV, B.V AS RV FROM A FULL OUTER JOIN B ON A.ID = B.ID;
<<< left
"k" | null
"k" | {"v": "A"}
<<< right
"k" | null
>>> I as a table
>>> L as a table
"k" | {"LV": "A", "RV": null}
>>> F as a table
"k" | {"LV": "A", "RV": null}
<<< right
"k" | {"v": "a"}
>>> I as a table
"k" | {"LV": "A", "RV": "a"}
>>> L as a table
"k" | {"LV": "A", "RV": "a"}
>>> F as a table
"k" | {"LV": "A", "RV": "a"}
<<< left
"k" | null
>>> I as a table
"k" | null
>>> L as a table
"k" | null
>>> F as a table
"k" | {"LV": null, "RV": "a"}
<<< right
"k" | null
>>> I as a table
>>> L as a table
>>> F as a table
"k" | null
----
-- a join on an expression of the stream, and rows that found nobody by IS NULL
-- long
CREATE STREAM S (ID VARCHAR KEY, REF VARCHAR) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE STREAM LOST AS SELECT T.ID AS REF, S.ID AS ID FROM S LEFT JOIN T ON UCASE(S.REF) = T.ID WHERE T.NAME IS NULL;
<<< table
"X" | {"name": "x"}
<<< stream
"1" | {"ref": "x"}
"2" | {"ref": "y"}
>>> LOST
"Y" | {"ID": "2"}
----
-- a windowed aggregation behind a join with a table
-- long
CREATE STREAM S (ID VARCHAR KEY, REF VARCHAR, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID VARCHAR PRIMARY KEY, CITY VARCHAR) WITH (KAFKA_TOPIC='table', VALUE_FORMAT='JSON');
CREATE TABLE CITIES AS SELECT T.CITY AS CITY, SUM(S.N) AS TOTAL FROM S JOIN T ON S.REF = T.ID WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY T.CITY;
<<< table
"u" | {"city": "Bern"}
"v" | {"city": "Bern"}
<<< stream
"1" | {"ref": "u", "n": 1} | @1000
"2" | {"ref": "v", "n": 2} | @2000
"3" | {"ref": "v", "n": 4} | @12000
>>> CITIES as a table
"Bern" [0..10000] | {"TOTAL": 3}
"Bern" [10000..20000] | {"TOTAL": 4}
----
-- keys of another format on the side of the table
-- long
CREATE STREAM S (ID INT KEY, N INT) WITH (KAFKA_TOPIC='stream', VALUE_FORMAT='JSON');
CREATE TABLE T (ID INT PRIMARY KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='table', KEY_FORMAT='AVRO', VALUE_FORMAT='AVRO');
CREATE STREAM J AS SELECT S.ID AS ID, N, NAME FROM S JOIN T ON S.ID = T.ID;
<<< table
1 | {"NAME": "one"}
<<< stream
1 | {"n": 5}
2 | {"n": 6}
>>> J
1 | {"N": 5, "NAME": "one"}
