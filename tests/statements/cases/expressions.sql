-- whole numbers divide to whole numbers, and by nought to null
CREATE STREAM S (ID VARCHAR KEY, A INT, B INT, L BIGINT, D DOUBLE) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, A + B AS PLUS, A - B AS MINUS, A / B AS DIVIDED, A % B AS REST, A * L AS TIMES, A / D AS RATIO, -A AS NEGATED FROM S;
<<< numbers
"1" | {"a": 7, "b": 2, "l": 5000000000, "d": 2}
"2" | {"a": -7, "b": 2, "l": 1, "d": 0.5}
"3" | {"a": 7, "b": 0, "l": null, "d": 4}
>>> R
"1" | {"PLUS": 9, "MINUS": 5, "DIVIDED": 3, "REST": 1, "TIMES": 35000000000, "RATIO": 3.5, "NEGATED": -7}
"2" | {"PLUS": -5, "MINUS": -9, "DIVIDED": -3, "REST": -1, "TIMES": -7, "RATIO": -14.0, "NEGATED": 7}
"3" | {"PLUS": 7, "MINUS": 7, "DIVIDED": null, "REST": null, "TIMES": null, "RATIO": 1.75, "NEGATED": -7}
----
-- decimals keep their digits
CREATE STREAM S (ID VARCHAR KEY, A DECIMAL(6,2), B DECIMAL(4,3), N INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R WITH (VALUE_FORMAT='DELIMITED') AS SELECT ID, A + B AS PLUS, A * B AS TIMES, A + N AS MORE, CAST(A AS DECIMAL(10,4)) AS WIDER FROM S;
<<< numbers
"1" | {"a": 1234.50, "b": 1.125, "n": 2}
"2" | {"a": -0.01, "b": null, "n": 1}
>>> R
"1" | "1235.625,1388.81250,1236.50,1234.5000"
"2" | ",,0.99,-0.0100"
----
-- texts are put together with +
CREATE STREAM S (ID VARCHAR KEY, A VARCHAR, B VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, A + '-' + B AS T, CONCAT(A, '-', B) AS C FROM S;
<<< texts
"1" | {"a": "x", "b": "y"}
"2" | {"a": "x", "b": null}
>>> R
"1" | {"T": "x-y", "C": "x-y"}
"2" | {"T": null, "C": "x-"}
----
-- CASE with and without an operand and an ELSE
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CASE WHEN A < 0 THEN 'minus' WHEN A = 0 THEN 'nought' ELSE 'plus' END AS SIGN, CASE WHEN A = 1 THEN 1.5 WHEN A = 2 THEN 2.5 END AS N FROM S;
<<< numbers
"1" | {"a": -5}
"2" | {"a": 0}
"3" | {"a": 2}
"4" | {"a": null}
>>> R
"1" | {"SIGN": "minus", "N": null}
"2" | {"SIGN": "nought", "N": null}
"3" | {"SIGN": "plus", "N": 2.5}
"4" | {"SIGN": "plus", "N": null}
----
-- casts of texts: null where a text is none of the type
-- long
CREATE STREAM S (ID VARCHAR KEY, T VARCHAR) WITH (KAFKA_TOPIC='texts', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CAST(T AS INT) AS I, CAST(T AS BIGINT) AS L, CAST(T AS DOUBLE) AS D, CAST(T AS BOOLEAN) AS B, CAST(T AS DECIMAL(4,1)) AS N FROM S;
<<< texts
"1" | {"t": "12"}
"2" | {"t": "3000000000"}
"3" | {"t": "1.5"}
"4" | {"t": "true"}
"5" | {"t": "soon"}
"6" | {"t": null}
>>> R
"1" | {"I": 12, "L": 12, "D": 12.0, "B": false, "N": 12.0}
"2" | {"I": null, "L": 3000000000, "D": 3000000000.0, "B": false, "N": null}
"3" | {"I": null, "L": null, "D": 1.5, "B": false, "N": 1.5}
"4" | {"I": null, "L": null, "D": null, "B": true, "N": null}
"5" | {"I": null, "L": null, "D": null, "B": false, "N": null}
"6" | {"I": null, "L": null, "D": null, "B": null, "N": null}
----
-- casts to texts
-- long
CREATE STREAM S (ID VARCHAR KEY, I INT, D DOUBLE, B BOOLEAN, N DECIMAL(5,2), L ARRAY<INT>, DAY DATE, T TIMESTAMP) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CAST(I AS VARCHAR) AS I, CAST(D AS VARCHAR) AS D, CAST(B AS STRING) AS B, CAST(N AS VARCHAR) AS N, CAST(DAY AS VARCHAR) AS DAY, CAST(T AS VARCHAR) AS T FROM S;
<<< values
"1" | {"i": -3, "d": 1.5, "b": true, "n": 1.5, "day": 18721, "t": 1617494400123}
>>> R
"1" | {"I": "-3", "D": "1.5", "B": "true", "N": "1.50", "DAY": "2021-04-04", "T": "2021-04-04T00:00:00.123"}
----
-- casts of numbers, of arrays and of times
-- long
CREATE STREAM S (ID VARCHAR KEY, D DOUBLE, L ARRAY<INT>, T TIMESTAMP, M MAP<VARCHAR, INT>) WITH (KAFKA_TOPIC='values', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CAST(D AS INT) AS I, CAST(L AS ARRAY<VARCHAR>) AS L, CAST(T AS DATE) AS DAY, CAST(T AS TIME) AS CLOCK, CAST(M AS MAP<VARCHAR, DOUBLE>) AS M FROM S;
<<< values
"1" | {"d": 2.9, "l": [1, null], "t": 1617498061000, "m": {"x": 1}}
"2" | {"d": -2.9, "l": null, "t": 0, "m": {}}
>>> R
"1" | {"I": 2, "L": ["1", null], "DAY": 18721, "CLOCK": 3661000, "M": {"x": 1.0}}
"2" | {"I": -2, "L": null, "DAY": 0, "CLOCK": 0, "M": {}}
----
-- elements of arrays count from one, and from the end
-- long
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<VARCHAR>, M MAP<VARCHAR, ARRAY<INT>>) WITH (KAFKA_TOPIC='lists', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, L[1] AS FIRST, L[-1] AS LAST, L[3] AS THIRD, L[0] AS NOUGHT, M['x'][2] AS WITHIN_IT FROM S;
<<< lists
"1" | {"l": ["a", "b"], "m": {"x": [1, 2]}}
"2" | {"l": [], "m": {"y": [1, 2]}}
"3" | {"l": null, "m": null}
>>> R
"1" | {"FIRST": "a", "LAST": "b", "THIRD": null, "NOUGHT": null, "WITHIN_IT": 2}
"2" | {"FIRST": null, "LAST": null, "THIRD": null, "NOUGHT": null, "WITHIN_IT": null}
"3" | {"FIRST": null, "LAST": null, "THIRD": null, "NOUGHT": null, "WITHIN_IT": null}
----
-- comparisons as columns
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT, B DOUBLE, T VARCHAR) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, A = B AS SAME, A < B AS LESS, T = 'x' AS IS_X, A IS NULL AS NO_A, NOT (A > 1) AS SMALL FROM S;
<<< numbers
"1" | {"a": 1, "b": 1.0, "t": "x"}
"2" | {"a": 2, "b": 2.5, "t": "X"}
>>> R
"1" | {"SAME": true, "LESS": false, "IS_X": true, "NO_A": false, "SMALL": true}
"2" | {"SAME": false, "LESS": true, "IS_X": false, "NO_A": false, "SMALL": false}
----
-- literals of each kind
-- long
CREATE STREAM S (ID VARCHAR KEY, A INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, 1e2 AS HUNDRED, 12345678901 AS LONG, 1.5 AS DEC, 'it''s' AS QUOTED, TRUE AS YES, A FROM S;
<<< numbers
"1" | {"a": 1}
>>> R
"1" | {"HUNDRED": 100.0, "LONG": 12345678901, "DEC": 1.5, "QUOTED": "it's", "YES": true, "A": 1}
----
-- branches of a CASE of different numbers
-- long
CREATE STREAM S (ID VARCHAR KEY, N INT, D DOUBLE, L BIGINT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, CASE WHEN N > 1 THEN D ELSE 0e0 END AS A, CASE WHEN N > 1 THEN L END AS B FROM S;
<<< numbers
"a" | {"n": 1, "d": 1.5, "l": 7}
"b" | {"n": 2, "d": 1.5, "l": 7}
>>> R
"a" | {"A": 0.0, "B": null}
"b" | {"A": 1.5, "B": 7}
----
-- an index that no array has gives null, whatever its size
CREATE STREAM S (ID VARCHAR KEY, L ARRAY<INT>, I INT, B BIGINT) WITH (KAFKA_TOPIC='indexes', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT ID, L[I] AS BY_INT, L[B] AS BY_BIGINT, L[-2147483648] AS SMALLEST FROM S;
<<< indexes
"1" | {"l": [7, 8], "i": 2, "b": -2}
"2" | {"l": [7, 8], "i": -2147483648, "b": -2147483648}
"3" | {"l": [7, 8], "i": 2147483647, "b": -9223372036854775808}
"4" | {"l": [7, 8], "i": 0, "b": null}
>>> R
"1" | {"BY_INT": 8, "BY_BIGINT": 7, "SMALLEST": null}
"2" | {"BY_INT": null, "BY_BIGINT": null, "SMALLEST": null}
"3" | {"BY_INT": null, "BY_BIGINT": null, "SMALLEST": null}
"4" | {"BY_INT": null, "BY_BIGINT": null, "SMALLEST": null}
