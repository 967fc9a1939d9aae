-- records of two streams meet within a span of time
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"} | @20000
"b" | {"v": "l2"} | @20000
null | {"v": "l3"} | @20000
<<< right
"a" | {"v": "r1"} | @10000
"a" | {"v": "r2"} | @30000
"a" | {"v": "r3"} | @30001
"a" | {"v": "r4"} | @9999
null | {"v": "r5"} | @20000
>>> J in any order
"a" | {"LV": "l1", "RV": "r1"} | @20000
"a" | {"LV": "l1", "RV": "r2"} | @30000
----
-- a star names columns after their stream
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT * FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"} | @20000
<<< right
"a" | {"v": "r1"} | @20000
>>> J
"a" | {"L_V": "l1", "R_ID": "a", "R_V": "r1"}
----
-- before and after have spans of their own
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN (2 SECONDS, 5 SECONDS) GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l"} | @20000
<<< right
"a" | {"v": "too early"} | @17999
"a" | {"v": "before"} | @18000
"a" | {"v": "after"} | @25000
"a" | {"v": "too late"} | @25001
>>> J in any order
"a" | {"LV": "l", "RV": "before"} | @20000
"a" | {"LV": "l", "RV": "after"} | @25000
----
-- LEFT JOIN gives what found nobody when its time is over
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L LEFT JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"} | @20000
"b" | {"v": "l2"} | @21000
<<< right
"a" | {"v": "r1"} | @22000
"c" | {"v": "r2"} | @22000
>>> J
"a" | {"LV": "l1", "RV": "r1"} | @22000
<<< left
"z" | {"v": "z"} | @100000
<<< right
"z" | {"v": "z"} | @100000
>>> J in any order
"b" | {"LV": "l2", "RV": null} | @21000
"z" | {"LV": "z", "RV": "z"} | @100000
----
-- FULL OUTER JOIN gives both sides that found nobody
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT ROWKEY AS ID, L.V AS LV, R.V AS RV FROM L FULL OUTER JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"} | @20000
"b" | {"v": "l2"} | @21000
<<< right
"a" | {"v": "r1"} | @22000
"c" | {"v": "r2"} | @22000
>>> J
"a" | {"LV": "l1", "RV": "r1"} | @22000
<<< left
"z" | {"v": "z"} | @100000
<<< right
"z" | {"v": "z"} | @100000
>>> J in any order
"b" | {"LV": "l2", "RV": null} | @21000
"c" | {"LV": null, "RV": "r2"} | @22000
"z" | {"LV": "z", "RV": "z"} | @100000
----
-- RIGHT JOIN gives what found nobody on the right
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT R.ID AS ID, L.V AS LV, R.V AS RV FROM L RIGHT JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"b" | {"v": "l2"} | @21000
"z" | {"v": "z"} | @100000
<<< right
"c" | {"v": "r2"} | @22000
"z" | {"v": "z"} | @100000
>>> J in any order
"c" | {"LV": null, "RV": "r2"} | @22000
"z" | {"LV": "z", "RV": "z"} | @100000
----
-- duplicates meet as often as they come
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l"} | @20000
"a" | {"v": "l"} | @20000
<<< right
"a" | {"v": "r"} | @20000
>>> J in any order
"a" | {"LV": "l", "RV": "r"}
"a" | {"LV": "l", "RV": "r"}
<<< right
"a" | {"v": "r"} | @21000
>>> J in any order
"a" | {"LV": "l", "RV": "r"}
"a" | {"LV": "l", "RV": "r"}
----
-- a late record within the grace period meets, one behind it does not
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | {"v": "l1"} | @20000
"z" | {"v": "z"} | @24000
<<< right
"y" | {"v": "y"} | @24000
>>> J
<<< right
"a" | {"v": "late"} | @19500
>>> J
"a" | {"LV": "l1", "RV": "late"} | @20000
<<< left
"z" | {"v": "z"} | @100000
<<< right
"y" | {"v": "y"} | @100000
=== settled
<<< right
"a" | {"v": "too late"} | @20000
"z" | {"v": "last"} | @100000
>>> J
"z" | {"LV": "z", "RV": "last"} | @100000
----
-- records without a value meet nobody
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"a" | null | @20000
"b" | {"v": null} | @20000
<<< right
"a" | {"v": "r1"} | @20000
"b" | {"v": "r2"} | @20000
>>> J
"b" | {"LV": null, "RV": "r2"}
----
-- a join on columns that are no keys, with different partitions
-- long
CREATE STREAM O (ID VARCHAR KEY, USERID INT, ITEM VARCHAR) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM P (PID VARCHAR KEY, WHO INT, AMOUNT INT) WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE STREAM J AS SELECT O.USERID AS USERID, O.ID AS ORDERID, P.AMOUNT AS AMOUNT FROM O JOIN P WITHIN 1 HOUR GRACE PERIOD 1 MINUTE ON O.USERID = P.WHO;
<<< orders
"o1" | {"userid": 7, "item": "tea"} | @1000
"o2" | {"userid": 8, "item": "cup"} | @1000
"o3" | {"userid": null, "item": "pot"} | @1000
<<< payments
"p1" | {"who": 7, "amount": 5} | @2000
"p2" | {"who": 9, "amount": 6} | @2000
"p3" | {"who": null, "amount": 6} | @2000
>>> J
7 | {"ORDERID": "o1", "AMOUNT": 5}
----
-- a condition behind the join, and expressions of both sides
-- long
CREATE STREAM L (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, N INT) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='AVRO');
CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT L.ID AS ID, L.N + R.N AS TOTAL FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID WHERE L.N > R.N;
<<< left
"a" | {"n": 5} | @20000
"b" | {"n": 1} | @20000
<<< right
"a" | {"N": 2} | @20000
"b" | {"N": 2} | @20000
>>> J
"a" | {"TOTAL": 7}
----
-- three streams
-- long
CREATE STREAM A (ID VARCHAR KEY, V INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM B (ID VARCHAR KEY, V INT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE STREAM C (ID VARCHAR KEY, V INT) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT A.ID AS ID, A.V AS AV, B.V AS BV, C.V AS CV FROM A JOIN B WITHIN 10 SECONDS GRACE PERIOD 1 SECOND ON A.ID = B.ID JOIN C WITHIN 10 SECONDS GRACE PERIOD 1 SECOND ON A.ID = C.ID;
<<< a
"x" | {"v": 1} | @20000
"y" | {"v": 9} | @20000
<<< b
"x" | {"v": 2} | @21000
<<< c
"x" | {"v": 3} | @22000
"y" | {"v": 3} | @22000
>>> J
"x" | {"AV": 1, "BV": 2, "CV": 3} | @22000
----
-- what was joined is counted by a query of its own
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
CREATE TABLE N AS SELECT RV, COUNT(*) AS N FROM J GROUP BY RV;
<<< left
"a" | {"v": "l1"} | @20000
"b" | {"v": "l2"} | @20000
<<< right
"a" | {"v": "x"} | @20000
"b" | {"v": "x"} | @20000
>>> N as a table
"x" | {"N": 2}
----
-- the documentation's table of stream-stream joins: INNER JOIN
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 15 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"k" | null | @1000
"k" | {"v": "A"} | @3000
"k" | {"v": "B"} | @5000
"k" | null | @7000
"k" | {"v": "C"} | @9000
"k" | null | @12000
"k" | {"v": "D"} | @15000
<<< right
"k" | null | @2000
"k" | {"v": "a"} | @4000
"k" | {"v": "b"} | @6000
"k" | null | @8000
"k" | {"v": "c"} | @10000
"k" | null | @11000
"k" | null | @13000
"k" | {"v": "d"} | @14000
>>> J in any order
"k" | {"LV": "A", "RV": "a"}
"k" | {"LV": "B", "RV": "a"}
"k" | {"LV": "A", "RV": "b"}
"k" | {"LV": "B", "RV": "b"}
"k" | {"LV": "C", "RV": "a"}
"k" | {"LV": "C", "RV": "b"}
"k" | {"LV": "A", "RV": "c"}
"k" | {"LV": "B", "RV": "c"}
"k" | {"LV": "C", "RV": "c"}
"k" | {"LV": "A", "RV": "d"}
"k" | {"LV": "B", "RV": "d"}
"k" | {"LV": "C", "RV": "d"}
"k" | {"LV": "D", "RV": "a"}
"k" | {"LV": "D", "RV": "b"}
"k" | {"LV": "D", "RV": "c"}
"k" | {"LV": "D", "RV": "d"}
<<< left
"k" | {"v": "E"} | @40000
"k" | {"v": "F"} | @60000
"k" | {"v": "G"} | @100000
<<< right
"k" | {"v": "f"} | @80000
=== settled
<<< left
"z" | {"v": "z"} | @200000
<<< right
"z" | {"v": "z"} | @200000
>>> J in any order
"z" | {"LV": "z", "RV": "z"}
----
-- the documentation's table of stream-stream joins: LEFT JOIN
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L LEFT JOIN R WITHIN 15 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"k" | null | @1000
"k" | {"v": "A"} | @3000
"k" | {"v": "B"} | @5000
"k" | null | @7000
"k" | {"v": "C"} | @9000
"k" | null | @12000
"k" | {"v": "D"} | @15000
<<< right
"k" | null | @2000
"k" | {"v": "a"} | @4000
"k" | {"v": "b"} | @6000
"k" | null | @8000
"k" | {"v": "c"} | @10000
"k" | null | @11000
"k" | null | @13000
"k" | {"v": "d"} | @14000
>>> J in any order
"k" | {"LV": "A", "RV": "a"}
"k" | {"LV": "B", "RV": "a"}
"k" | {"LV": "A", "RV": "b"}
"k" | {"LV": "B", "RV": "b"}
"k" | {"LV": "C", "RV": "a"}
"k" | {"LV": "C", "RV": "b"}
"k" | {"LV": "A", "RV": "c"}
"k" | {"LV": "B", "RV": "c"}
"k" | {"LV": "C", "RV": "c"}
"k" | {"LV": "A", "RV": "d"}
"k" | {"LV": "B", "RV": "d"}
"k" | {"LV": "C", "RV": "d"}
"k" | {"LV": "D", "RV": "a"}
"k" | {"LV": "D", "RV": "b"}
"k" | {"LV": "D", "RV": "c"}
"k" | {"LV": "D", "RV": "d"}
<<< left
"k" | {"v": "E"} | @40000
"k" | {"v": "F"} | @60000
"k" | {"v": "G"} | @100000
<<< right
"k" | {"v": "f"} | @80000
=== settled
<<< left
"z" | {"v": "z"} | @200000
<<< right
"z" | {"v": "z"} | @200000
>>> J in any order
"z" | {"LV": "z", "RV": "z"}
"k" | {"LV": "E", "RV": null}
"k" | {"LV": "F", "RV": null}
"k" | {"LV": "G", "RV": null}
----
-- the documentation's table of stream-stream joins: OUTER JOIN
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT ROWKEY AS ID, L.V AS LV, R.V AS RV FROM L FULL OUTER JOIN R WITHIN 15 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
"k" | null | @1000
"k" | {"v": "A"} | @3000
"k" | {"v": "B"} | @5000
"k" | null | @7000
"k" | {"v": "C"} | @9000
"k" | null | @12000
"k" | {"v": "D"} | @15000
<<< right
"k" | null | @2000
"k" | {"v": "a"} | @4000
"k" | {"v": "b"} | @6000
"k" | null | @8000
"k" | {"v": "c"} | @10000
"k" | null | @11000
"k" | null | @13000
"k" | {"v": "d"} | @14000
>>> J in any order
"k" | {"LV": "A", "RV": "a"}
"k" | {"LV": "B", "RV": "a"}
"k" | {"LV": "A", "RV": "b"}
"k" | {"LV": "B", "RV": "b"}
"k" | {"LV": "C", "RV": "a"}
"k" | {"LV": "C", "RV": "b"}
"k" | {"LV": "A", "RV": "c"}
"k" | {"LV": "B", "RV": "c"}
"k" | {"LV": "C", "RV": "c"}
"k" | {"LV": "A", "RV": "d"}
"k" | {"LV": "B", "RV": "d"}
"k" | {"LV": "C", "RV": "d"}
"k" | {"LV": "D", "RV": "a"}
"k" | {"LV": "D", "RV": "b"}
"k" | {"LV": "D", "RV": "c"}
"k" | {"LV": "D", "RV": "d"}
<<< left
"k" | {"v": "E"} | @40000
"k" | {"v": "F"} | @60000
"k" | {"v": "G"} | @100000
<<< right
"k" | {"v": "f"} | @80000
=== settled
<<< left
"z" | {"v": "z"} | @200000
<<< right
"z" | {"v": "z"} | @200000
>>> J in any order
"z" | {"LV": "z", "RV": "z"}
"k" | {"LV": "E", "RV": null}
"k" | {"LV": "F", "RV": null}
"k" | {"LV": "G", "RV": null}
"k" | {"LV": null, "RV": "f"}
----
-- keys of other formats on both sides
-- long
CREATE STREAM L (ID INT KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE STREAM R (ID INT KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', KEY_FORMAT='AVRO', VALUE_FORMAT='DELIMITED');
CREATE STREAM J AS SELECT L.ID AS ID, L.V AS LV, R.V AS RV FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON L.ID = R.ID;
<<< left
1 | {"v": "l"} | @20000
<<< right
1 | "r" | @20000
2 | "s" | @20000
>>> J
1 | {"LV": "l", "RV": "r"} | @20000
----
-- a join on an expression of the left side: the column on the right is the key
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT R.V AS K, L.ID AS LID, R.ID AS RID FROM L JOIN R WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON UCASE(L.V) = R.V;
<<< left
"l1" | {"v": "x"} | @20000
<<< right
"r1" | {"v": "X"} | @20000
"r2" | {"v": "x"} | @20000
>>> J
"X" | {"LID": "l1", "RID": "r1"}
----
-- a star of two aliases
-- long
CREATE STREAM L (ID VARCHAR KEY, V VARCHAR) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='JSON');
CREATE STREAM R (ID VARCHAR KEY, W VARCHAR) WITH (KAFKA_TOPIC='right', VALUE_FORMAT='JSON');
CREATE STREAM J AS SELECT B.*, A.V AS V FROM L AS A JOIN R AS B WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON A.ID = B.ID;
<<< left
"a" | {"v": "l1"} | @20000
<<< right
"a" | {"w": "r1"} | @20000
>>> J
"a" | {"B_W": "r1", "V": "l1"}
