-- a row for each element
CREATE STREAM S (ID VARCHAR KEY, ITEMS ARRAY<VARCHAR>) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM LINES AS SELECT ID, EXPLODE(ITEMS) AS ITEM FROM S;
<<< orders
"1" | {"items": ["tea", null, "cup"]} | @1000
"2" | {"items": []}
"3" | {"items": null}
"4" | {"items": ["pot"]} | @2000
>>> LINES
"1" | {"ITEM": "tea"} | @1000
"1" | {"ITEM": null} | @1000
"1" | {"ITEM": "cup"} | @1000
"4" | {"ITEM": "pot"} | @2000
----
-- two arrays side by side: the shorter is filled with nulls
-- real-time
CREATE STREAM S (ID VARCHAR KEY, A ARRAY<VARCHAR>, B ARRAY<INT>) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM LINES AS SELECT ID, EXPLODE(A) AS A, EXPLODE(B) AS B FROM S;
<<< orders
"1" | {"a": ["x", "y"], "b": [1, 2, 3]}
"2" | {"a": ["z"], "b": null}
>>> LINES
"1" | {"A": "x", "B": 1}
"1" | {"A": "y", "B": 2}
"1" | {"A": null, "B": 3}
"2" | {"A": "z", "B": null}
----
-- elements that are structs are taken apart
CREATE STREAM S (ID VARCHAR KEY, ITEMS ARRAY<STRUCT<NAME VARCHAR, N INT>>) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM LINES AS SELECT ID, EXPLODE(ITEMS) AS ITEM FROM S;
CREATE STREAM NAMES AS SELECT ID, ITEM->NAME AS NAME, ITEM->N * 2 AS TWICE FROM LINES;
<<< orders
"1" | {"items": [{"name": "tea", "n": 1}, {"name": "cup", "n": 2}]}
>>> NAMES
"1" | {"NAME": "tea", "TWICE": 2}
"1" | {"NAME": "cup", "TWICE": 4}
----
-- an expression around a table function, and a function inside of it
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM WORDS AS SELECT ID, UCASE(EXPLODE(SPLIT(T, ' '))) AS WORD FROM S;
<<< texts
"1" | {"t": "to be"}
>>> WORDS
"1" | {"WORD": "TO"}
"1" | {"WORD": "BE"}
----
-- a cube of a record's values
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM CUBE AS SELECT ID, CUBE_EXPLODE(ARRAY[A, B]) AS C FROM S;
<<< numbers
"1" | {"a": 1, "b": 2}
>>> CUBE in any order
"1" | {"C": [null, null]}
"1" | {"C": [null, 2]}
"1" | {"C": [1, null]}
"1" | {"C": [1, 2]}
----
-- words are exploded and counted
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM WORDS AS SELECT ID, EXPLODE(SPLIT(T, ' ')) AS WORD FROM S;
CREATE TABLE COUNTS AS SELECT WORD, COUNT(*) AS N FROM WORDS GROUP BY WORD;
<<< texts
"1" | {"t": "to be or not to be"}
>>> COUNTS as a table
"to" | {"N": 2}
"be" | {"N": 2}
"or" | {"N": 1}
"not" | {"N": 1}
----
-- a filter before the rows are exploded
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<VARCHAR>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM E AS SELECT ID, EXPLODE(L) AS T, ARRAY_LENGTH(L) AS N FROM S WHERE ARRAY_LENGTH(L) > 1;
<<< lists
"a" | {"l": ["x"]}
"b" | {"l": ["y", "z"]}
>>> E
"b" | {"T": "y", "N": 2}
"b" | {"T": "z", "N": 2}
