-- the time of a record from a column of milliseconds
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS BIGINT, N INT) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='WHEN_IT_WAS');
CREATE STREAM COPY AS SELECT ID, N, ROWTIME AS T FROM S;
<<< events
"a" | {"when_it_was": 5000, "n": 1} | @1
"b" | {"when_it_was": 4000, "n": 2} | @2
>>> COPY
"a" | {"N": 1, "T": 5000} | @5000
"b" | {"N": 2, "T": 4000} | @4000
----
-- the time of a record from a text with a format
-- real-time
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS VARCHAR) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='WHEN_IT_WAS', TIMESTAMP_FORMAT='yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM COPY AS SELECT * FROM S;
<<< events
"a" | {"when_it_was": "2021-04-04T01:02:03Z"} | @1
"b" | {"when_it_was": "2021-04-04T03:02:03+02"} | @1
>>> COPY
"a" | {"WHEN_IT_WAS": "2021-04-04T01:02:03Z"} | @1617498123000
"b" | {"WHEN_IT_WAS": "2021-04-04T03:02:03+02"} | @1617498123000
----
-- the time of a record from a column of type TIMESTAMP
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS TIMESTAMP) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='WHEN_IT_WAS');
CREATE STREAM COPY AS SELECT * FROM S;
<<< events
"a" | {"when_it_was": 1617498123000} | @1
>>> COPY
"a" | {"WHEN_IT_WAS": 1617498123000} | @1617498123000
----
-- a record whose column has no time goes to the dead letters
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS VARCHAR) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='WHEN_IT_WAS', TIMESTAMP_FORMAT='yyyy-MM-dd');
CREATE STREAM COPY AS SELECT * FROM S;
<<< events
"a" | {"when_it_was": "tomorrow"}
"b" | {"when_it_was": "1970-01-02"}
>>> COPY
"b" | {"WHEN_IT_WAS": "1970-01-02"} | @86400000
>>> dead letters
~a | ~{"when_it_was": "tomorrow"} | Column WHEN_IT_WAS, the TIMESTAMP of the record, has no valid time.
----
-- the sink's time from a column of its own
-- long
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS BIGINT) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
CREATE STREAM LATER WITH (TIMESTAMP='MOVED') AS SELECT ID, WHEN_IT_WAS + 1000 AS MOVED FROM S;
CREATE STREAM NEXT AS SELECT ID, ROWTIME AS T FROM LATER;
<<< events
"a" | {"when_it_was": 5000} | @1
>>> LATER
"a" | {"MOVED": 6000} | @6000
>>> NEXT
"a" | {"T": 6000} | @6000
----
-- windows go by the time in a column
-- long
CREATE STREAM S (ID VARCHAR KEY, WHEN_IT_WAS BIGINT) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='WHEN_IT_WAS');
CREATE TABLE COUNTS AS SELECT ID, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY ID;
<<< events
"a" | {"when_it_was": 12000} | @1
"a" | {"when_it_was": 25000} | @1
"a" | {"when_it_was": 19999} | @1
>>> COUNTS as a table
"a" [10000..20000] | {"N": 2} | @19999
"a" [20000..30000] | {"N": 1} | @25000
