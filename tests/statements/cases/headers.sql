-- a header as a column: the last one of its name
-- real-time
CREATE STREAM S (ID VARCHAR KEY, N INT, H BYTES HEADER('trace')) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT ID, N, FROM_BYTES(H, 'utf8') AS TRACE FROM S;
<<< events
"a" | {"n": 1} | h:trace=x | h:other=z | h:trace=y
"b" | {"n": 2}
>>> COPY
"a" | {"N": 1, "TRACE": "y"}
"b" | {"N": 2, "TRACE": null}
----
-- all headers as an array
CREATE STREAM S (ID VARCHAR KEY, N INT, H ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
CREATE STREAM COPY AS SELECT ID, TRANSFORM(H, x => x->KEY + '=' + FROM_BYTES(x->VALUE, 'utf8')) AS HEADS FROM S;
<<< events
"a" | {"n": 1} | h:x=1 | h:y=2
"b" | {"n": 2}
>>> COPY
"a" | {"HEADS": ["x=1", "y=2"]}
"b" | {"HEADS": []}
----
-- records are filtered and partitioned by a header
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT, H BYTES HEADER('kind')) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
CREATE STREAM KEPT AS SELECT FROM_BYTES(H, 'utf8') AS KIND, N FROM S WHERE FROM_BYTES(H, 'utf8') <> 'noise' PARTITION BY FROM_BYTES(H, 'utf8');
<<< events
"a" | {"n": 1} | h:kind=news
"b" | {"n": 2} | h:kind=noise
"c" | {"n": 3}
>>> KEPT
"news" | {"N": 1}
