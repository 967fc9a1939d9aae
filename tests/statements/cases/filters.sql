-- comparisons, and nulls that are never true
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT ID, A FROM S WHERE A > 1 AND B <> 5;
<<< numbers
"1" | {"a": 2, "b": 4}
"2" | {"a": 1, "b": 4}
"3" | {"a": 2, "b": 5}
"4" | {"a": null, "b": 4}
"5" | {"a": 3}
"6" | {"a": 3, "b": 0}
>>> KEPT
"1" | {"A": 2}
"6" | {"A": 3}
----
-- a null in OR and NOT has three values
CREATE STREAM S (ID VARCHAR KEY, A BOOLEAN, B BOOLEAN) WITH (KAFKA_TOPIC='flags', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT ID, A, B FROM S WHERE A OR NOT B;
<<< flags
"1" | {"a": true, "b": null}
"2" | {"a": null, "b": false}
"3" | {"a": null, "b": null}
"4" | {"a": false, "b": true}
"5" | {"a": null, "b": true}
>>> KEPT
"1" | {"A": true, "B": null}
"2" | {"A": null, "B": false}
----
-- LIKE with %, _ and an escape
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM A AS SELECT ID, T FROM S WHERE T LIKE 'te%' OR T LIKE '_e_';
CREATE STREAM C AS SELECT ID, T FROM S WHERE T LIKE '10!%' ESCAPE '!';
CREATE STREAM D AS SELECT ID, T FROM S WHERE T NOT LIKE '%e%';
<<< texts
"1" | {"t": "tea"}
"2" | {"t": "Tea"}
"3" | {"t": "10%"}
"4" | {"t": "100"}
"5" | {"t": null}
>>> A
"1" | {"T": "tea"}
"2" | {"T": "Tea"}
>>> C
"3" | {"T": "10%"}
>>> D
"3" | {"T": "10%"}
"4" | {"T": "100"}
----
-- BETWEEN has both ends, IN a list
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, T VARCHAR) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM BETWEENS AS SELECT ID, A FROM S WHERE A BETWEEN 2 AND 4;
CREATE STREAM INS AS SELECT ID, T FROM S WHERE T IN ('a', 'c') OR A NOT IN (1, 2, 3, 4, 5);
<<< numbers
"1" | {"a": 1, "t": "a"}
"2" | {"a": 2, "t": "b"}
"3" | {"a": 4, "t": "c"}
"4" | {"a": 5, "t": "d"}
"5" | {"a": 6, "t": "e"}
>>> BETWEENS
"2" | {"A": 2}
"3" | {"A": 4}
>>> INS
"1" | {"T": "a"}
"3" | {"T": "c"}
"5" | {"T": "e"}
----
-- IS NULL, IS NOT NULL and IS DISTINCT FROM
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM NULLS AS SELECT ID, B FROM S WHERE A IS NULL;
CREATE STREAM DIFFERENT AS SELECT ID, A, B FROM S WHERE A IS DISTINCT FROM B;
<<< numbers
"1" | {"a": 1, "b": 1}
"2" | {"a": null, "b": 1}
"3" | {"a": null, "b": null}
"4" | {"a": 2, "b": 1}
>>> NULLS
"2" | {"B": 1}
"3" | {"B": null}
>>> DIFFERENT
"2" | {"A": null, "B": 1}
"4" | {"A": 2, "B": 1}
----
-- a filter on the key, and records without a value never pass one
-- long
CREATE STREAM S (ID INT KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT * FROM S WHERE ID > 1;
<<< numbers
1 | {"a": 1}
2 | {"a": 2}
3 | null
null | {"a": 4}
4 | {"a": 5}
>>> KEPT
2 | {"A": 2}
4 | {"A": 5}
----
-- timestamps and dates are compared with texts
-- long
CREATE STREAM S (ID VARCHAR KEY, T TIMESTAMP, D DATE) WITH (KAFKA_TOPIC='times', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT ID, T, D FROM S WHERE T >= '2021-04-04T00:00:00' AND D < '2021-05-01';
<<< times
"1" | {"t": 1617494400000, "d": 18721}
"2" | {"t": 1617494399999, "d": 18721}
"3" | {"t": 1617494400001, "d": 18748}
>>> KEPT
"1" | {"T": 1617494400000, "D": 18721}
----
-- ROWTIME is compared with a moment
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM LATER AS SELECT ID, A FROM S WHERE ROWTIME >= '1970-01-01T00:00:02';
<<< numbers
"1" | {"a": 1} | @1999
"2" | {"a": 2} | @2000
>>> LATER
"2" | {"A": 2} | @2000
----
-- conditions on fields of structs, arrays and maps
-- long
CREATE STREAM S (ID VARCHAR KEY, P STRUCT<N INT>, L ARRAY<INT>, M MAP<VARCHAR, INT>) WITH (KAFKA_TOPIC='nested', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT ID, P->N AS N FROM S WHERE P->N = 1 AND L[1] = 1 AND M['x'] = 1;
<<< nested
"1" | {"p": {"n": 1}, "l": [1], "m": {"x": 1}}
"2" | {"p": {"n": 2}, "l": [1], "m": {"x": 1}}
"3" | {"p": {"n": 1}, "l": [], "m": {"x": 1}}
"4" | {"p": {"n": 1}, "l": [1], "m": {}}
"5" | {"p": {"n": 1}, "l": [1, 2], "m": {"x": 1, "y": 2}}
>>> KEPT
"1" | {"N": 1}
"5" | {"N": 1}
----
-- CASE in a condition
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT ID, A FROM S WHERE CASE WHEN A < 10 THEN 'small' WHEN A < 100 THEN 'big' END = 'big';
<<< numbers
"1" | {"a": 5}
"2" | {"a": 50}
"3" | {"a": 500}
>>> KEPT
"2" | {"A": 50}
----
-- LIKE takes no regular expressions, and lines do not end it
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, T FROM S WHERE T LIKE 'a.c%';
<<< texts
"1" | {"t": "abc"}
"2" | {"t": "a.c\nd"}
"3" | {"t": "a.c"}
>>> R
"2" | {"T": "a.c\nd"}
"3" | {"T": "a.c"}
