"""What DBeaver sends when it connects, opens the tree of a database and shows a table.

In our words: the constructs of its traffic (`x.oid, x.*`, joins with descriptions, expressions of the
catalogue, object ids as parameters), over the tables of `write_lake`.
"""

# ruff: noqa: E501 - statements, broken where their clauses end
from __future__ import annotations

from typing import Final

CONNECTING: Final = (
    "SET application_name = 'DBeaver 24.1.0 - Main <headrace>'",
    "SHOW server_version_num",
    "SHOW search_path",
    "SELECT current_schema(), session_user",
    'SET search_path = public,"$user"',
)

DATABASES: Final = """
    SELECT db.oid, db.* FROM pg_catalog.pg_database db
    WHERE datallowconn AND NOT datistemplate OR db.datname = ? ORDER BY db.datname
"""
SCHEMAS: Final = """
    SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
    LEFT OUTER JOIN pg_catalog.pg_description d
      ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
    ORDER BY nspname
"""
TYPES: Final = """
    SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
    FROM pg_catalog.pg_type t
    LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
    LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
    LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
    WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
      AND (et.typcategory IS NULL OR et.typcategory <> 'C')
"""
TABLES: Final = """
    SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
      pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
    FROM pg_catalog.pg_class c
    LEFT OUTER JOIN pg_catalog.pg_description d
      ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
    WHERE c.relnamespace = ? AND c.relkind NOT IN ('i', 'I', 'c')
"""
COLUMNS: Final = """
    SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
    FROM pg_catalog.pg_attribute a
    INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
    LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
    LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
    LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i'
      AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
    WHERE NOT a.attisdropped AND c.oid = ? ORDER BY a.attnum
"""

# Of one table, by its object id: what the lake has none of.
EMPTY_OF_A_TABLE: Final = (
    """
    SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
      CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
    FROM pg_catalog.pg_constraint c
    INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
    LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
    LEFT OUTER JOIN pg_catalog.pg_description d
      ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
    WHERE c.conrelid = ? ORDER BY c.oid
    """,
    """
    SELECT i.*, i.indkey AS keys, c.relname, c.relam, tc.relname AS tabrelname, dsc.description,
      pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,
      pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size,
      pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans
    FROM pg_catalog.pg_index i
    INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
    LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
    WHERE i.indrelid = ? ORDER BY tabrelname, c.relname
    """,
    """
    SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c
    WHERE i.inhrelid = ? AND c.oid = i.inhparent ORDER BY i.inhseqno
    """,
    "SELECT DISTINCT connamespace FROM pg_catalog.pg_constraint WHERE confrelid = ?",
    """
    SELECT x.oid, x.*, p.pronamespace AS func_schema_id, d.description FROM pg_catalog.pg_trigger x
    LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid
    LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = x.oid AND d.objsubid = 0
    WHERE x.tgrelid = ? AND NOT x.tgisinternal
    """,
    """
    SELECT r.oid, r.*, pg_get_ruledef(r.oid) AS definition FROM pg_rewrite r
    WHERE r.ev_class = ? AND r.rulename <> '_RETURN'::name
    """,
    """
    SELECT DISTINCT dep.deptype, dep.objid, cl.relkind, attr.attname,
      CASE WHEN dep.objsubid > 0 THEN cl.relkind || dep.objsubid::text ELSE '' END AS type,
      COALESCE(coc.relname, clrw.relname) AS ownertable
    FROM pg_depend dep
    LEFT JOIN pg_class cl ON dep.objid = cl.oid
    LEFT JOIN pg_attribute attr ON dep.objid = attr.attrelid AND dep.objsubid = attr.attnum
    LEFT JOIN pg_rewrite rw ON dep.objid = rw.oid LEFT JOIN pg_class clrw ON clrw.oid = rw.ev_class
    LEFT JOIN pg_constraint co ON dep.objid = co.oid LEFT JOIN pg_class coc ON co.conrelid = coc.oid
    WHERE dep.refobjid = ? ORDER BY type
    """,
)

# Of the whole database, and how many rows there are.
OTHERS: Final = (
    ("SELECT a.oid, a.*, d.description FROM pg_catalog.pg_roles a"
     " LEFT JOIN pg_catalog.pg_shdescription d ON a.oid = d.objoid ORDER BY a.rolname", 1),
    ("SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid", 1),
    ("SELECT l.oid, l.* FROM pg_catalog.pg_language l ORDER BY l.oid", 1),
    ("SELECT am.oid, am.* FROM pg_catalog.pg_am am ORDER BY am.oid", 1),
    ("SELECT * FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'", 1),
    ("SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size FROM pg_class c"
     " WHERE c.relnamespace = 2200", 2),
    ("SELECT c.contoencoding AS encid, pg_catalog.pg_encoding_to_char(c.contoencoding) AS encname"
     " FROM pg_catalog.pg_conversion c GROUP BY c.contoencoding ORDER BY 2", 0),
    ("SELECT e.oid, cfg.tbls, n.nspname AS schema_name, e.* FROM pg_catalog.pg_extension e"
     " JOIN pg_namespace n ON n.oid = e.extnamespace LEFT JOIN"
     " (SELECT ARRAY_AGG(cls.relname) tbls, oid_ext FROM"
     " (SELECT unnest(e1.extconfig) oid, e1.oid oid_ext FROM pg_catalog.pg_extension e1) c"
     " JOIN pg_class cls ON cls.oid = c.oid GROUP BY oid_ext) cfg ON cfg.oid_ext = e.oid ORDER BY e.oid", 0),
    ("SELECT l.oid, l.*, p.pronamespace AS handler_schema_id FROM pg_catalog.pg_foreign_data_wrapper l"
     " LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = l.fdwhandler ORDER BY l.fdwname", 0),
    ("SELECT x.oid, x.* FROM pg_catalog.pg_event_trigger x", 0),
    ("SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description"
     " FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid"
     " WHERE p.pronamespace = 2200 ORDER BY p.proname", 0),
    ("SELECT sa.* FROM pg_catalog.pg_stat_activity sa", 0),
    ("SELECT stat.* FROM pg_catalog.pg_statio_user_tables stat", 0),
)  # fmt: skip

SEARCH: Final = """
    SELECT x.oid, x.relname, x.relnamespace FROM pg_catalog.pg_class x
    WHERE x.relkind IN ('r', 'v', 'm') AND x.relname ILIKE ? AND x.relnamespace IN (?) ORDER BY x.relname LIMIT 100
"""
