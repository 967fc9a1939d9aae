-- texts: case, parts, lengths
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, UCASE(T) AS U, LCASE(T) AS L, INITCAP(T) AS I, LEN(T) AS N, TRIM(T) AS T, SUBSTRING(T, 2) AS S2, SUBSTRING(T, 2, 3) AS S23, SUBSTRING(T, -3, 2) AS SM FROM S;
<<< texts
"1" | {"t": "hello World"}
"2" | {"t": "  x "}
"3" | {"t": null}
>>> R
"1" | {"U": "HELLO WORLD", "L": "hello world", "I": "Hello World", "N": 11, "T": "hello World", "S2": "ello World", "S23": "ell", "SM": "rl"}
"2" | {"U": "  X ", "L": "  x ", "I": "X ", "N": 4, "T": "x", "S2": " x ", "S23": " x ", "SM": " x"}
"3" | {"U": null, "L": null, "I": null, "N": null, "T": null, "S2": null, "S23": null, "SM": null}
----
-- texts: padding, replacing, finding
-- real-time
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, LPAD(T, 5, 'xy') AS L, RPAD(T, 5, '.') AS R, LPAD(T, 2, '.') AS CUT, REPLACE(T, 'a', 'o') AS REPLACED, INSTR(T, 'a') AS FOUND, INSTR(T, 'a', -1) AS FROM_END, INSTR(T, 'z') AS LACKING FROM S;
<<< texts
"1" | {"t": "abca"}
>>> R
"1" | {"L": "xabca", "R": "abca.", "CUT": "ab", "REPLACED": "obco", "FOUND": 1, "FROM_END": 4, "LACKING": 0}
----
-- texts: put together and taken apart
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, SPLIT(T, ',') AS PARTS, CONCAT_WS('-', T, 'x') AS JOINED, SPLIT_TO_MAP(T, ',', ':') AS BY_NAME, REGEXP_SPLIT_TO_ARRAY(T, '[,:]') AS ALL_PARTS FROM S;
<<< texts
"1" | {"t": "a:1,b:2"}
"2" | {"t": "a,,b"}
"3" | {"t": null}
>>> R
"1" | {"PARTS": ["a:1", "b:2"], "JOINED": "a:1,b:2-x", "BY_NAME": {"a": "1", "b": "2"}, "ALL_PARTS": ["a", "1", "b", "2"]}
"2" | {"PARTS": ["a", "", "b"], "JOINED": "a,,b-x", "BY_NAME": {}, "ALL_PARTS": ["a", "", "b"]}
"3" | {"PARTS": null, "JOINED": "x", "BY_NAME": null, "ALL_PARTS": null}
----
-- regular expressions
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, REGEXP_EXTRACT('[0-9]+', T) AS FIRST, REGEXP_EXTRACT('([a-z]+)-([0-9]+)', T, 2) AS GRP, REGEXP_EXTRACT_ALL('[0-9]+', T) AS EVERY, REGEXP_REPLACE(T, '[0-9]+', '#') AS R FROM S;
<<< texts
"1" | {"t": "abc-12 d-3"}
"2" | {"t": "none"}
>>> R
"1" | {"FIRST": "12", "GRP": "12", "EVERY": ["12", "3"], "R": "abc-# d-#"}
"2" | {"FIRST": null, "GRP": null, "EVERY": [], "R": "none"}
----
-- parts of a text are masked
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, MASK(T) AS WHOLE, MASK(T, '*', NULL, '1', NULL) AS SOME, MASK_KEEP_LEFT(T, 2) AS KL, MASK_KEEP_RIGHT(T, 2) AS KR, MASK_LEFT(T, 2) AS ML, MASK_RIGHT(T, 2) AS MR FROM S;
<<< texts
"1" | {"t": "My Test $123"}
>>> R
"1" | {"WHOLE": "Xx-Xxxx--nnn", "SOME": "*y *est $111", "KL": "My-Xxxx--nnn", "KR": "Xx-Xxxx--n23", "ML": "Xx Test $123", "MR": "My Test $1nn"}
----
-- numbers: rounding
-- long
CREATE STREAM S (ID VARCHAR KEY, D DOUBLE, N DECIMAL(6,3)) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, ROUND(D) AS R0, ROUND(D, 1) AS R1, CEIL(D) AS C, FLOOR(D) AS F, ABS(D) AS A, SIGN(D) AS S, ROUND(N, 1) AS RN, TRUNC(D) AS T0 FROM S;
<<< numbers
"1" | {"d": 2.55, "n": 1.25}
"2" | {"d": -1.5, "n": -1.25}
>>> R
"1" | {"R0": 3, "R1": 2.6, "C": 3.0, "F": 2.0, "A": 2.55, "S": 1, "RN": 1.3, "T0": 2}
"2" | {"R0": -1, "R1": -1.5, "C": -1.0, "F": -2.0, "A": 1.5, "S": -1, "RN": -1.2, "T0": -1}
----
-- numbers: powers, roots and angles
-- long
CREATE STREAM S (ID VARCHAR KEY, D DOUBLE) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, SQRT(D) AS Q, POWER(D, 2) AS P, CBRT(8.0) AS C, EXP(0) AS E, LN(1) AS L, SIN(0) AS S, DEGREES(PI()) AS DEG, GREATEST(D, 3, 2) AS G, LEAST(D, 3, 2) AS LE FROM S;
<<< numbers
"1" | {"d": 4}
>>> R
"1" | {"Q": 2.0, "P": 16.0, "C": 2.0, "E": 1.0, "L": 0.0, "S": 0.0, "DEG": 180.0, "G": 4.0, "LE": 2.0}
----
-- dates and times are read from texts and written as texts
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='times', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, PARSE_TIMESTAMP(T, 'yyyy-MM-dd HH:mm:ss') AS TS, FORMAT_TIMESTAMP(PARSE_TIMESTAMP(T, 'yyyy-MM-dd HH:mm:ss'), 'dd.MM.yyyy HH:mm') AS AS_TEXT, STRINGTOTIMESTAMP(T, 'yyyy-MM-dd HH:mm:ss') AS MS, PARSE_DATE(SUBSTRING(T, 1, 10), 'yyyy-MM-dd') AS DAY FROM S;
<<< times
"1" | {"t": "2021-04-04 01:02:03"}
"2" | {"t": "soon"}
>>> R
"1" | {"TS": 1617498123000, "AS_TEXT": "04.04.2021 01:02", "MS": 1617498123000, "DAY": 18721}
"2" | {"TS": null, "AS_TEXT": null, "MS": null, "DAY": null}
----
-- times are moved and turned into each other
-- long
CREATE STREAM S (ID VARCHAR KEY, T TIMESTAMP, D DATE, C TIME) WITH (KAFKA_TOPIC='times', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, TIMESTAMPADD(HOURS, 2, T) AS LATER, TIMESTAMPSUB(DAYS, 1, T) AS EARLIER, DATEADD(DAYS, 5, D) AS D5, DATESUB(DAYS, 1, D) AS D1, TIMEADD(HOURS, 1, C) AS C1, TIMESUB(MINUTES, 1, C) AS C2, UNIX_TIMESTAMP(T) AS MS, FROM_UNIXTIME(1000) AS U, UNIX_DATE(D) AS UD, FROM_DAYS(10) AS FD FROM S;
<<< times
"1" | {"t": 1617498123000, "d": 18721, "c": 82800000}
>>> R
"1" | {"LATER": 1617505323000, "EARLIER": 1617411723000, "D5": 18726, "D1": 18720, "C1": 0, "C2": 82740000, "MS": 1617498123000, "U": 1000, "UD": 18721, "FD": 10}
----
-- time zones
-- long
CREATE STREAM S (ID VARCHAR KEY, T TIMESTAMP) WITH (KAFKA_TOPIC='times', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CONVERT_TZ(T, 'UTC', 'Europe/Zurich') AS Z, FORMAT_TIMESTAMP(T, 'HH:mm', 'America/New_York') AS NY, TIMESTAMPTOSTRING(UNIX_TIMESTAMP(T), 'yyyy-MM-dd HH:mm:ss', 'UTC') AS U FROM S;
<<< times
"1" | {"t": 1617498123000}
>>> R
"1" | {"Z": 1617505323000, "NY": "21:02", "U": "2021-04-04 01:02:03"}
----
-- JSON inside of texts
-- long
CREATE STREAM S (ID VARCHAR KEY, J VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, EXTRACTJSONFIELD(J, '$.a.b') AS F, EXTRACTJSONFIELD(J, '$.l[1]') AS E, IS_JSON_STRING(J) AS V, JSON_KEYS(J) AS K, JSON_ARRAY_LENGTH(EXTRACTJSONFIELD(J, '$.l')) AS N, JSON_ARRAY_CONTAINS(EXTRACTJSONFIELD(J, '$.l'), 2) AS HAS FROM S;
<<< texts
"1" | {"j": "{\"a\": {\"b\": \"x\"}, \"l\": [1, 2]}"}
"2" | {"j": "no"}
>>> R
"1" | {"F": "x", "E": "2", "V": true, "K": ["a", "l"], "N": 2, "HAS": true}
"2" | {"F": null, "E": null, "V": false, "K": null, "N": null, "HAS": null}
----
-- values become JSON texts
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, L ARRAY<INT>, P STRUCT<X INT, Y VARCHAR>) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, TO_JSON_STRING(A) AS A, TO_JSON_STRING(L) AS L, TO_JSON_STRING(P) AS P, JSON_RECORDS('{"x": 1, "y": [2]}') AS J, JSON_CONCAT('{"x":1}', '{"y":2}') AS C FROM S;
<<< values
"1" | {"a": 1, "l": [1, null], "p": {"x": 1, "y": "z"}}
>>> R
"1" | {"A": "1", "L": "[1,null]", "P": "{\"X\":1,\"Y\":\"z\"}", "J": {"x": "1", "y": "[2]"}, "C": "{\"x\":1,\"y\":2}"}
----
-- arrays
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<INT>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, ARRAY_LENGTH(L) AS N, ARRAY_MAX(L) AS MAX, ARRAY_MIN(L) AS MIN, ARRAY_SORT(L) AS S, ARRAY_SORT(L, 'DESC') AS D, ARRAY_DISTINCT(L) AS U, ARRAY_CONTAINS(L, 3) AS HAS, ARRAY_REMOVE(L, 3) AS REST, ARRAY_JOIN(L, '+') AS T, SLICE(L, 2, 3) AS PART FROM S;
<<< lists
"1" | {"l": [3, 1, 3, null]}
"2" | {"l": null}
>>> R
"1" | {"N": 4, "MAX": 3, "MIN": 1, "S": [1, 3, 3, null], "D": [3, 3, 1, null], "U": [3, 1, null], "HAS": true, "REST": [1, null], "T": "3+1+3+null", "PART": [1, 3]}
"2" | {"N": null, "MAX": null, "MIN": null, "S": null, "D": null, "U": null, "HAS": false, "REST": null, "T": null, "PART": null}
----
-- sets of arrays
-- long
CREATE STREAM S (ID VARCHAR KEY, A ARRAY<INT>, B ARRAY<INT>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, ARRAY_UNION(A, B) AS U, ARRAY_INTERSECT(A, B) AS I, ARRAY_EXCEPT(A, B) AS E, ARRAY_CONCAT(A, B) AS C, GENERATE_SERIES(1, 7, 3) AS G FROM S;
<<< lists
"1" | {"a": [1, 2, 2], "b": [2, 3]}
>>> R
"1" | {"U": [1, 2, 3], "I": [2], "E": [1], "C": [1, 2, 2, 2, 3], "G": [1, 4, 7]}
----
-- maps
-- long
CREATE STREAM S (ID VARCHAR KEY, A MAP<VARCHAR, INT>, B MAP<VARCHAR, INT>) WITH (KAFKA_TOPIC='maps', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, ARRAY_SORT(MAP_KEYS(A)) AS K, ARRAY_SORT(MAP_VALUES(A)) AS V, MAP_UNION(A, B) AS U, AS_MAP(ARRAY['p', 'q'], ARRAY[1, 2]) AS M, ENTRIES(A, true) AS E FROM S;
<<< maps
"1" | {"a": {"y": 2, "x": 1}, "b": {"x": 5}}
>>> R
"1" | {"K": ["x", "y"], "V": [1, 2], "U": {"x": 5, "y": 2}, "M": {"p": 1, "q": 2}, "E": [{"K": "x", "V": 1}, {"K": "y", "V": 2}]}
----
-- lambdas over arrays and maps
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<INT>, M MAP<VARCHAR, INT>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, TRANSFORM(L, x => x * 2) AS T, FILTER(L, x => x > 1) AS F, REDUCE(L, 10, (s, x) => s + x) AS S, TRANSFORM(M, (k, v) => UCASE(k), (k, v) => v + 1) AS TM, FILTER(M, (k, v) => v > 1) AS FM, REDUCE(M, 0, (s, k, v) => s + v) AS SM FROM S;
<<< lists
"1" | {"l": [1, 2, 3], "m": {"a": 1, "b": 2}}
"2" | {"l": null, "m": null}
>>> R
"1" | {"T": [2, 4, 6], "F": [2, 3], "S": 16, "TM": {"A": 2, "B": 3}, "FM": {"b": 2}, "SM": 3}
"2" | {"T": null, "F": null, "S": 10, "TM": null, "FM": null, "SM": 0}
----
-- nulls are replaced
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, COALESCE(A, B, 0) AS C, IFNULL(A, -1) AS I, NULLIF(A, B) AS N, ELT(A, 'x', 'y') AS E, FIELD('y', 'x', 'y') AS F FROM S;
<<< numbers
"1" | {"a": 1, "b": 1}
"2" | {"a": null, "b": 2}
"3" | {"a": 3, "b": null}
>>> R
"1" | {"C": 1, "I": 1, "N": null, "E": "x", "F": 2}
"2" | {"C": 2, "I": -1, "N": null, "E": null, "F": 2}
"3" | {"C": 3, "I": 3, "N": 3, "E": null, "F": 2}
----
-- parts of addresses in the web
-- long
CREATE STREAM S (ID VARCHAR KEY, U VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, URL_EXTRACT_PROTOCOL(U) AS P, URL_EXTRACT_HOST(U) AS H, URL_EXTRACT_PORT(U) AS PORT, URL_EXTRACT_PATH(U) AS PATH, URL_EXTRACT_QUERY(U) AS Q, URL_EXTRACT_PARAMETER(U, 'b') AS B, URL_EXTRACT_FRAGMENT(U) AS F, URL_DECODE_PARAM('a%20b') AS D, URL_ENCODE_PARAM('a b') AS E FROM S;
<<< texts
"1" | {"u": "http://test.com:8080/path?a=1&b=x%20y#part"}
"2" | {"u": "no address"}
>>> R
"1" | {"P": "http", "H": "test.com", "PORT": 8080, "PATH": "/path", "Q": "a=1&b=x y", "B": "x y", "F": "part", "D": "a b", "E": "a+b"}
"2" | {"P": null, "H": null, "PORT": null, "PATH": null, "Q": null, "B": null, "F": null, "D": "a b", "E": "a+b"}
----
-- bytes and their encodings
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, TO_BYTES(T, 'utf8') AS B, FROM_BYTES(TO_BYTES(T, 'utf8'), 'hex') AS H, FROM_BYTES(TO_BYTES(T, 'utf8'), 'base64') AS B64, ENCODE(T, 'utf8', 'hex') AS E, CHR(65) AS C FROM S;
<<< texts
"1" | {"t": "Hi"}
>>> R
"1" | {"B": "SGk=", "H": "4869", "B64": "SGk=", "E": "4869", "C": "A"}
----
-- distances on the globe
-- long
CREATE STREAM S (ID VARCHAR KEY, LAT DOUBLE, LON DOUBLE) WITH (KAFKA_TOPIC='places', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, ROUND(GEO_DISTANCE(LAT, LON, 37.4439, -122.1663)) AS KM, ROUND(GEO_DISTANCE(LAT, LON, 37.4439, -122.1663, 'MI')) AS MILES FROM S;
<<< places
"1" | {"lat": 51.5257, "lon": -0.1122}
>>> R
"1" | {"KM": 8635, "MILES": 5366}
----
-- lambdas see the columns around them, and each other
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, L ARRAY<ARRAY<INT>>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, TRANSFORM(L, x => TRANSFORM(x, y => y + A)) AS T, TRANSFORM(L, x => REDUCE(x, A, (s, y) => s + y)) AS SUMS FROM S;
<<< lists
"a" | {"a": 10, "l": [[1, 2], []]}
>>> R
"a" | {"T": [[11, 12], []], "SUMS": [13, 10]}
----
-- a key that holds no letters, and texts of other scripts
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, LEN(T) AS N, UCASE(T) AS T FROM S;
<<< texts
"" | {"t": "straße"}
"茶 🍵" | {"t": "čaj"}
>>> R
"" | {"N": 6, "T": "STRASSE"}
"茶 🍵" | {"N": 3, "T": "ČAJ"}
