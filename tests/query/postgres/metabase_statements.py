"""What Metabase sends when it adds a database, syncs it and answers its users' first questions.

In our words: the constructs of its PostgreSQL driver's traffic (quoted names, aliases that are reserved
words, casts to regclass, parameters where it binds values), over the tables of `write_lake`.
"""

# ruff: noqa: E501 - statements, broken where their clauses end
from __future__ import annotations

from decimal import Decimal
from typing import Final

CONNECTING: Final = (
    "show timezone;",
    "SET SESSION TIMEZONE TO 'Europe/Berlin';",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET ROLE NONE;",
)

PRIVILEGES: Final = """
    with privileges as (
      select NULL as role, t.schemaname as schema, t.objectname as table,
        pg_catalog.has_any_column_privilege(current_user,
          '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || t.objectname || '"', 'select') as select,
        pg_catalog.has_any_column_privilege(current_user, '"public"."' || t.objectname || '"', 'update') as update,
        pg_catalog.has_table_privilege(current_user, '"public"."' || t.objectname || '"', 'delete') as delete
      from (
        select schemaname, tablename as objectname from pg_catalog.pg_tables
        union select schemaname, viewname as objectname from pg_catalog.pg_views
        union select schemaname, matviewname as objectname from pg_catalog.pg_matviews
      ) t
      where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema'
        and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')
    )
    select t.* from privileges t order by t.table
"""

TABLES: Final = """
    SELECT "n"."nspname" AS "schema", "c"."relname" AS "name",
      CASE "c"."relkind" WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END AS "type",
      "d"."description" AS "description", "stat"."n_live_tup" AS "estimated_row_count"
    FROM "pg_catalog"."pg_class" AS "c"
    INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid"
    LEFT JOIN "pg_catalog"."pg_description" AS "d"
      ON ("c"."oid" = "d"."objoid") AND ("d"."objsubid" = 0) AND ("d"."classoid" = 'pg_class'::regclass)
    LEFT JOIN "pg_stat_user_tables" AS "stat"
      ON ("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = "stat"."relname")
    WHERE ("n"."nspname" !~ '^pg_') AND ("n"."nspname" <> 'information_schema')
      AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND ("n"."nspname" IN (?))
    ORDER BY "type" ASC, "schema" ASC, "name" ASC
"""

FIELDS: Final = """
    SELECT "c"."column_name" AS "name",
      CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "c"."udt_name")
        ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type",
      "c"."ordinal_position" - 1 AS "database-position",
      "pk"."column_name" IS NOT NULL AS "pk?",
      COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT),
        CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment",
      ("column_default" IS NULL) AND ("is_nullable" = 'NO') AND NOT ("is_identity" <> 'NO') AS "database-required"
    FROM "information_schema"."columns" AS "c"
    LEFT JOIN (
      SELECT "tc"."table_name", "kc"."column_name" FROM "information_schema"."table_constraints" AS "tc"
      INNER JOIN "information_schema"."key_column_usage" AS "kc"
        ON ("tc"."constraint_name" = "kc"."constraint_name") AND ("tc"."table_name" = "kc"."table_name")
      WHERE "tc"."constraint_type" = 'PRIMARY KEY') AS "pk"
      ON ("c"."table_name" = "pk"."table_name") AND ("c"."column_name" = "pk"."column_name")
    WHERE c.table_schema !~ '^information_schema|catalog_history|pg_'
      AND ("c"."table_schema" IN (?)) AND ("c"."table_name" IN (?))
    UNION ALL
    SELECT "pa"."attname" AS "name", FORMAT('%s', "pt"."typname") AS "database-type",
      "pa"."attnum" - 1 AS "database-position", FALSE AS "pk?", NULL AS "field-comment",
      FALSE AS "database-required"
    FROM "pg_catalog"."pg_class" AS "pc"
    INNER JOIN "pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid"
    INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid"
    WHERE ("pc"."relkind" = 'm') AND ("pa"."attnum" >= 1)
    ORDER BY "database-position" ASC
"""

# Keys, indexes and enumerations, which the lake does not have.
EMPTY: Final = (
    """
    SELECT "fk_table"."relname" AS "fk-table-name", "pk_column"."attname" AS "pk-column-name"
    FROM "pg_constraint" AS "c"
    INNER JOIN "pg_class" AS "fk_table" ON "c"."conrelid" = "fk_table"."oid"
    INNER JOIN "pg_attribute" AS "fk_column" ON "c"."conrelid" = "fk_column"."attrelid"
    INNER JOIN "pg_attribute" AS "pk_column" ON "c"."confrelid" = "pk_column"."attrelid"
    WHERE ("c"."contype" = 'f'::char) AND ("fk_column"."attnum" = ANY(c.conkey))
      AND ("pk_column"."attnum" = ANY(c.confkey))
    """,
    """
    SELECT "tmp"."name", TRIM(BOTH '"' FROM "pg_catalog"."pg_get_indexdef"("tmp"."oid", "tmp"."pos", FALSE)) AS "f"
    FROM (
      SELECT "ct"."relname" AS "name", "ci"."oid" AS "oid",
        (information_schema._pg_expandarray("i"."indkey")).n AS "pos"
      FROM "pg_catalog"."pg_class" AS "ct"
      INNER JOIN "pg_catalog"."pg_index" AS "i" ON "ct"."oid" = "i"."indrelid"
      INNER JOIN "pg_catalog"."pg_class" AS "ci" ON "ci"."oid" = "i"."indexrelid"
      WHERE "pg_catalog"."pg_get_expr"("i"."indpred", "i"."indrelid") IS NULL) AS "tmp"
    WHERE "tmp"."pos" = 1
    """,
    """
    SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)
    """,
    'SELECT TRUE AS "_" FROM "public"."kinds" WHERE 1 <> 1 LIMIT 0',
)

SAMPLE: Final = """
    SELECT "public"."kinds"."id" AS "id", SUBSTRING("public"."kinds"."name", 1, 1234) AS "substring1",
      "public"."kinds"."at" AS "at", "public"."kinds"."nested" AS "nested"
    FROM "public"."kinds" ORDER BY "id" LIMIT 10000
"""

# A question, its parameters, its first row. Moments are as Java prints them.
QUESTIONS: Final[tuple[tuple[str, tuple[str, ...], tuple[object, ...]], ...]] = (
    (
        """
        SELECT DATE_TRUNC('month', "public"."kinds"."at") AS "at", COUNT(*) AS "count" FROM "public"."kinds"
        WHERE "public"."kinds"."at" IS NOT NULL GROUP BY DATE_TRUNC('month', "public"."kinds"."at")
        ORDER BY DATE_TRUNC('month', "public"."kinds"."at") ASC
        """,
        (),
        ("2026-01-01T00:00:00Z", 1),
    ),
    (
        """
        SELECT CAST(DATE_TRUNC('month', "public"."kinds"."day") AS date) AS "day", SUM("public"."kinds"."price")
        FROM "public"."kinds" GROUP BY CAST(DATE_TRUNC('month', "public"."kinds"."day") AS date) ORDER BY 1
        """,
        (),
        ("2026-01-01", Decimal("12.50")),
    ),
    (
        """
        SELECT DATE_TRUNC('day', CAST("public"."events"."server_date" AS timestamp)) AS "d",
          COUNT(distinct "public"."events"."user_id") AS "count" FROM "public"."events"
        GROUP BY DATE_TRUNC('day', CAST("public"."events"."server_date" AS timestamp)) ORDER BY "d" DESC
        """,
        (),
        ("2026-01-02 00:00:00.0", 5),
    ),
    (
        """
        SELECT (CAST(DATE_TRUNC('week', (CAST("public"."kinds"."at" AS timestamp) + INTERVAL '1 day')) AS timestamp)
          + INTERVAL '-1 day') AS "at" FROM "public"."kinds" WHERE "public"."kinds"."id" = 1
        """,
        (),
        ("2025-12-28 00:00:00.0",),
    ),
    (
        """
        SELECT CAST(extract(dow from "public"."kinds"."at") AS integer) AS "dow",
          CAST(extract(hour from "public"."kinds"."at") AS integer) AS "hour"
        FROM "public"."kinds" WHERE "public"."kinds"."id" = 1
        """,
        (),
        (5, 3),
    ),
    (
        """
        SELECT ((FLOOR((("public"."kinds"."price" - 0.0) / 12.5)) * 12.5) + 0.0) AS "price", COUNT(*) AS "count"
        FROM "public"."kinds" WHERE "public"."kinds"."price" IS NOT NULL
        GROUP BY ((FLOOR((("public"."kinds"."price" - 0.0) / 12.5)) * 12.5) + 0.0)
        """,
        (),
        (12.5, 1),
    ),
    (
        """
        SELECT COUNT(*) AS "count" FROM "public"."kinds"
        WHERE ("public"."kinds"."at" >= ?) AND ("public"."kinds"."at" < ?)
        """,
        ("2026-01-02T04:00:00+01:00", "2026-01-02T12:04:05.7+09:00"),
        (1,),
    ),
    (
        """
        SELECT COUNT(*) AS "count" FROM "public"."kinds"
        WHERE ("public"."kinds"."at" >= DATE_TRUNC('month', (NOW() + INTERVAL '-3000 month')))
          AND ("public"."kinds"."at" < DATE_TRUNC('month', (NOW() + INTERVAL '1 month')))
        """,
        (),
        (1,),
    ),
    (
        """
        SELECT "source"."event_type" AS "event_type", COUNT(*) AS "count"
        FROM (SELECT "public"."events"."event_type" AS "event_type" FROM "public"."events"
          WHERE (LOWER("public"."events"."event_type") LIKE ?) OR ("public"."events"."event_type" = ?)) AS "source"
        GROUP BY "source"."event_type" ORDER BY "count" DESC, "source"."event_type" ASC LIMIT 10
        """,
        ("%click%", "ListingView"),
        ("ListingView", 10),
    ),
    (
        """
        SELECT CAST(SUM(CASE WHEN "public"."events"."event_type" = ? THEN 1 ELSE 0.0 END) AS float)
          / NULLIF(COUNT(*), 0) AS "share" FROM "public"."events"
        """,
        ("Click",),
        (1 / 11,),
    ),
    (
        """
        SELECT ("public"."kinds"."nested"#>> array[?]::text[])::bigint AS "x",
          substring("public"."kinds"."name" FROM ?) AS "matched",
          timezone('Asia/Tokyo', "public"."kinds"."at") AS "tokyo"
        FROM "public"."kinds" WHERE "public"."kinds"."id" = 1
        """,
        ("x", "([a-z])'"),
        (1, "t", "2026-01-02 12:04:05.6"),
    ),
    (
        """
        SELECT SUM(SUM("public"."kinds"."id")) OVER (ORDER BY "public"."kinds"."id" ROWS UNBOUNDED PRECEDING) AS "s",
          PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "public"."kinds"."real") AS "median"
        FROM "public"."kinds" GROUP BY "public"."kinds"."id" ORDER BY "public"."kinds"."id"
        """,
        (),
        (Decimal(1), 0.1),
    ),
    (
        """
        SELECT "public"."kinds"."id" AS "id", "Events"."user_id" AS "Events__user_id" FROM "public"."kinds"
        LEFT JOIN "public"."events" AS "Events"
          ON CONCAT('u', CAST("public"."kinds"."id" AS TEXT)) = "Events"."user_id" AND "Events"."event_type" = ?
        ORDER BY "public"."kinds"."id" LIMIT 2000
        """,
        ("Click",),
        (1, "u1"),
    ),
)
