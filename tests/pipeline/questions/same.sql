-- What DuckDB and Spark must answer alike: a statement a line. A new function or clause belongs here.
SELECT * FROM awkward ORDER BY ID
SELECT * EXCLUDE (S, T) FROM Awkward AS a ORDER BY id DESC LIMIT 5 OFFSET 2
SELECT id, t AS "Text", Id AS Id2 FROM awkward WHERE kind = 'odd' ORDER BY 1
-- Integer arithmetic and division.
SELECT ID, ID + 1, B * 2, N - B, -B, N // 2, N % 3, N % -3, B // (B + 8) FROM awkward ORDER BY ID
SELECT ID, N / 2, N / 4.0, N / 0, P / 3, X / N, X / 0, X / 0.0, 1 / X, B / N FROM awkward ORDER BY ID
SELECT ID, P * 2, P + 1.5, P * P, P - N, N * 1.10, -P, P + X FROM awkward ORDER BY ID
SELECT ID, X + 1, X * 2, X - X, N ** 2, X ^ 2 FROM awkward ORDER BY ID
SELECT 1 + 2 * 3, (1 + 2) * 3, 7 // 2, -7 // 2, 7 / 2, -7 % 3, 1.5, .5, 1e3, 2 ** 3
-- Rounding.
SELECT ID, round(X), round(X, 2), round(X, 1), floor(X), ceil(X), abs(X) FROM awkward ORDER BY ID
SELECT ID, round(P), round(P, 1), floor(P), ceil(P), abs(B), round(N) FROM awkward ORDER BY ID
SELECT ID, CAST(P AS INT), CAST(N AS BIGINT), CAST(P AS DOUBLE), P::DECIMAL(12,1) FROM awkward ORDER BY ID
SELECT ID, CAST(X AS BIGINT) FROM awkward WHERE abs(X) < 1e15 ORDER BY ID
SELECT ID, N::VARCHAR, P::VARCHAR, YES::VARCHAR, D::VARCHAR, AT_LOCAL::VARCHAR FROM awkward ORDER BY ID
SELECT ID, DAY_TEXT::DATE, CAST(ID::VARCHAR AS INT), CAST(P::VARCHAR AS DOUBLE) FROM awkward ORDER BY ID
-- The order of nulls, of texts, and of numbers that are none.
SELECT ID, T FROM awkward ORDER BY T, ID
SELECT ID, T FROM awkward ORDER BY T DESC, ID
SELECT ID, T FROM awkward ORDER BY T NULLS FIRST, ID
SELECT ID, T FROM awkward ORDER BY T DESC NULLS FIRST, ID
SELECT ID, X FROM awkward ORDER BY X, ID
SELECT ID, X FROM awkward ORDER BY X DESC, ID LIMIT 7
SELECT ID, N FROM awkward ORDER BY N, ID LIMIT 3
SELECT YES, count(*) FROM awkward GROUP BY ALL ORDER BY ALL
SELECT YES, count(*) FROM awkward GROUP BY 1 ORDER BY 2 DESC, 1 DESC
-- Comparisons.
SELECT ID FROM awkward WHERE X = X ORDER BY ID
SELECT ID FROM awkward WHERE X > 1 ORDER BY ID
SELECT ID FROM awkward WHERE X = 0.1 OR X = 0 ORDER BY ID
SELECT ID FROM awkward WHERE T > 'S' ORDER BY ID
SELECT ID FROM awkward WHERE T = 'back\slash' OR T = 'a''b' ORDER BY ID
SELECT ID FROM awkward WHERE T IS DISTINCT FROM 'ab' AND N IS NOT DISTINCT FROM 1 ORDER BY ID
SELECT ID FROM awkward WHERE N IN (1, 2, NULL) ORDER BY ID
SELECT ID FROM awkward WHERE N NOT IN (1, 2) ORDER BY ID
SELECT ID FROM awkward WHERE N NOT IN (1, NULL) ORDER BY ID
SELECT ID FROM awkward WHERE D BETWEEN '2026-02-01' AND DATE '2026-05-31' ORDER BY ID
SELECT ID FROM awkward WHERE AT_UTC >= '2026-03-01 10:00:00' AND AT_LOCAL < '2026-11-01' ORDER BY ID
SELECT ID FROM awkward WHERE D = AT_LOCAL OR D < AT_UTC ORDER BY ID
SELECT ID FROM awkward WHERE NOT (YES OR N > 5) ORDER BY ID
SELECT ID FROM awkward WHERE YES IS TRUE OR (N > 3 AND T <> '') IS NOT TRUE ORDER BY ID
SELECT ID FROM awkward WHERE N = 1 OR N = 2 AND YES ORDER BY ID
-- Texts.
SELECT ID, substring(T, 1, 3), substring(T, 2), substr(T, 3, 0), left(T, 2), right(T, 3) FROM awkward ORDER BY ID
SELECT ID, length(T), trim(T), ltrim(T), rtrim(T), T || '!', md5(T), sha256(T) FROM awkward ORDER BY ID
SELECT ID, concat(T, '-', KIND), coalesce(T, 'none'), replace(T, 'a', 'bb'), nullif(T, 'ab') FROM awkward ORDER BY ID
SELECT ID, upper(T), lower(T) FROM awkward WHERE ID <> 10 ORDER BY ID
SELECT ID, contains(T, 'a'), starts_with(T, 'S'), suffix(T, 'h'), strpos(T, 'e'), instr(T, 'b') FROM awkward ORDER BY ID
SELECT ID FROM awkward WHERE T LIKE '%a%' ORDER BY ID
SELECT ID FROM awkward WHERE T LIKE '_' ORDER BY ID
SELECT ID FROM awkward WHERE T LIKE '%\%' ORDER BY ID
SELECT ID FROM awkward WHERE T LIKE 'back\s%' ORDER BY ID
SELECT ID FROM awkward WHERE T LIKE '100!%' ESCAPE '!' OR T LIKE 'under!_%' ESCAPE '!' ORDER BY ID
SELECT ID FROM awkward WHERE T NOT LIKE '%s%' ORDER BY ID
SELECT ID FROM awkward WHERE ID <> 10 AND T ILIKE 'se%' ORDER BY ID
SELECT 'a''b\n\\c', 'x' || NULL, concat('x', NULL), '', 'ü🙂'
-- Times.
SELECT ID, year(D), month(D), day(D), quarter(D), week(D), dayofweek(D), isodow(D), dayofyear(D) FROM awkward ORDER BY ID
SELECT ID, hour(AT_UTC), minute(AT_LOCAL), second(AT_UTC), extract(year FROM AT_UTC), date_part('month', D) FROM awkward ORDER BY ID
SELECT ID, date_trunc('month', D), date_trunc('week', AT_UTC), date_trunc('hour', AT_LOCAL), date_trunc('quarter', D), date_trunc('year', AT_UTC) FROM awkward ORDER BY ID
SELECT ID, D + 1, D - 1, D - DATE '2026-01-01', D + INTERVAL 1 DAY, D + INTERVAL '2 months', AT_UTC - INTERVAL 3 HOURS, AT_LOCAL + INTERVAL 1 YEAR FROM awkward ORDER BY ID
SELECT ID, AT_UTC::DATE, D::TIMESTAMP, AT_LOCAL::TIMESTAMPTZ, AT_UTC::TIMESTAMP, epoch_ms(AT_UTC) FROM awkward ORDER BY ID
SELECT ID, date_diff('day', D, DATE '2026-12-31'), strftime(AT_UTC, '%Y-%m-%d %H:%M:%S'), strftime(D, '%d.%m.%y') FROM awkward ORDER BY ID
SELECT DATE '2026-01-31' + INTERVAL 1 MONTH, TIMESTAMP '2026-02-28 23:59:59.5' + INTERVAL 1 SECOND
SELECT count(*) FROM awkward WHERE D < current_date AND AT_UTC < now()
-- Aggregates.
SELECT count(*), count(T), count(DISTINCT KIND), sum(N), sum(B), sum(P), avg(N), avg(P), min(T), max(T) FROM awkward
SELECT KIND, count(*), sum(N), min(D), max(AT_UTC), bool_or(YES), bool_and(YES) FROM awkward GROUP BY KIND ORDER BY KIND
SELECT KIND, count(*) FILTER (WHERE N > 1), sum(P) FILTER (WHERE YES) FROM awkward GROUP BY ALL ORDER BY 1
SELECT min(X), max(X), count(X), count(DISTINCT X) FROM awkward
SELECT sum(N), avg(X), max(T), count(*) FROM awkward WHERE ID > 1000
SELECT KIND FROM awkward WHERE ID > 1000 GROUP BY KIND
SELECT KIND AS k, year(D) * 100 + month(D) AS ym, count(*) AS c FROM awkward GROUP BY k, ym HAVING c > 0 ORDER BY k, ym
SELECT left(T, 1) AS T, count(*) FROM awkward GROUP BY left(T, 1) ORDER BY 1
SELECT DISTINCT KIND, YES FROM awkward ORDER BY ALL
SELECT sum(DISTINCT N % 3), count(DISTINCT D) FROM awkward
-- Conditions.
SELECT ID, CASE WHEN N > 5 THEN 'big' WHEN N > 0 THEN 'small' END, CASE KIND WHEN 'odd' THEN 1 ELSE 2.5 END, if(YES, 1, 0) FROM awkward ORDER BY ID
SELECT ID, coalesce(N, 0), greatest(N, 5), least(N, B, 3), greatest(X, 1), ifnull(D, DATE '2000-01-01') FROM awkward ORDER BY ID
-- Joins, queries inside, sets.
SELECT a.ID, o.NAME FROM awkward a JOIN others o USING (ID) ORDER BY ALL
SELECT a.ID, o.NAME FROM awkward a LEFT JOIN others o ON a.ID = o.ID ORDER BY 1, 2
SELECT a.ID, o.NAME FROM awkward a RIGHT JOIN others o ON a.ID = o.ID AND a.N > 0 ORDER BY 1, 2
SELECT a.ID, o.NAME FROM awkward a FULL JOIN others o ON a.ID = o.ID ORDER BY 1, 2
SELECT ID, NAME FROM awkward FULL JOIN others USING (ID) ORDER BY 1, 2
SELECT a.ID, o.NAME FROM awkward a, others o WHERE a.ID = o.ID ORDER BY 1, 2
SELECT count(*) FROM awkward a CROSS JOIN others o
SELECT ID, NAME FROM awkward NATURAL JOIN others ORDER BY ALL
SELECT count(*) FROM awkward a LEFT JOIN others o ON a.ID < o.ID
SELECT ID FROM awkward WHERE ID IN (SELECT ID FROM others) ORDER BY 1
SELECT ID FROM awkward WHERE ID NOT IN (SELECT ID FROM others) ORDER BY 1
SELECT ID FROM awkward WHERE ID NOT IN (SELECT ID FROM others WHERE ID IS NOT NULL) ORDER BY 1
SELECT ID FROM awkward a WHERE EXISTS (SELECT 1 FROM others o WHERE o.ID = a.ID AND o.NAME > 't') ORDER BY 1
SELECT ID FROM awkward a WHERE NOT EXISTS (SELECT 1 FROM others o WHERE o.ID = a.ID) ORDER BY 1
SELECT ID, (SELECT max(NAME) FROM others o WHERE o.ID = a.ID) FROM awkward a ORDER BY 1
SELECT ID, (SELECT count(*) FROM others o WHERE o.ID = a.ID) FROM awkward a ORDER BY 1
WITH big AS (SELECT * FROM awkward WHERE N > 5), c(k, n) AS (SELECT KIND, count(*) FROM big GROUP BY 1) SELECT * FROM c ORDER BY k
SELECT ID FROM awkward UNION SELECT ID FROM others ORDER BY ID
SELECT ID FROM others UNION ALL SELECT ID FROM others ORDER BY ID LIMIT 4
SELECT ID FROM awkward INTERSECT SELECT ID FROM others ORDER BY 1
SELECT ID FROM awkward EXCEPT SELECT ID FROM others ORDER BY 1
SELECT ID FROM others EXCEPT ALL SELECT 2 ORDER BY 1
(SELECT ID FROM awkward ORDER BY ID LIMIT 2) UNION ALL (SELECT ID FROM others ORDER BY ID DESC LIMIT 1) ORDER BY 1
FROM others SELECT NAME, ID ORDER BY NAME
-- Versions.
SELECT count(*), max(ID) FROM awkward AS OF VERSION 0
SELECT count(*) FROM awkward a LEFT JOIN awkward AS OF VERSION 0 b ON a.ID = b.ID WHERE b.ID IS NULL
-- Windows.
SELECT ID, row_number() OVER (ORDER BY T, ID), rank() OVER (PARTITION BY KIND ORDER BY YES), dense_rank() OVER (ORDER BY X DESC NULLS FIRST) FROM awkward ORDER BY ID
SELECT ID, lag(N) OVER (ORDER BY ID), lead(T, 2) OVER (PARTITION BY KIND ORDER BY ID), sum(N) OVER (ORDER BY ID), first_value(T) OVER (ORDER BY ID) FROM awkward ORDER BY ID
SELECT ID, sum(B) OVER (ORDER BY ID ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), count(*) OVER (PARTITION BY KIND), max(N) OVER () FROM awkward ORDER BY ID
SELECT ID, KIND FROM awkward QUALIFY row_number() OVER (PARTITION BY KIND ORDER BY ID DESC) <= 2 ORDER BY ID
SELECT ID, last_value(N) OVER (ORDER BY ID ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), ntile(3) OVER (ORDER BY ID) FROM awkward ORDER BY ID
-- Without a table, and with columns that are always null.
SELECT 1 AS a, NULL AS b, true AS c, 'x' AS a
SELECT NULL AS x, ID FROM awkward ORDER BY ID LIMIT 1
