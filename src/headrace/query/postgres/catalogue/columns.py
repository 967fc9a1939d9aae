"""The columns of the catalogue's relations, by PostgreSQL's names.

One line for each relation: `name: column type [= default], …`. A row gives the columns that differ from the
default, which is NULL if there is none. A relation that nothing fills has no rows, as in a database without
such objects. Clients name columns, so a column that is missing here is an error that they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TYPES: Final = {
    "bool": "BOOLEAN",
    "char": "VARCHAR",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "int2": "SMALLINT",
    "int2s": "SMALLINT[]",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "name": "VARCHAR",
    "oid": "UINTEGER",
    "oids": "UINTEGER[]",
    "text": "VARCHAR",
    "texts": "VARCHAR[]",
    "time": "TIMESTAMPTZ",
}

_PG_CATALOG: Final = """
pg_aggregate: aggfnoid oid, aggkind char, aggtransfn oid, aggfinalfn oid, aggtranstype oid, aggsortop oid
pg_am: oid oid, amname name, amhandler text = '', amtype char = 't'
pg_attrdef: oid oid, adrelid oid, adnum int2, adbin text
pg_attribute: attrelid oid, attname name, atttypid oid, attstattarget int4 = -1, attlen int2, attnum int2, attndims int4 = 0, attcacheoff int4 = -1, atttypmod int4 = -1, attbyval bool = false, attalign char = 'i', attstorage char = 'p', attcompression char = '', attnotnull bool = false, atthasdef bool = false, atthasmissing bool = false, attidentity char = '', attgenerated char = '', attisdropped bool = false, attislocal bool = true, attinhcount int4 = 0, attcollation oid = 0, attacl texts, attoptions texts, attfdwoptions texts, attmissingval text
pg_auth_members: oid oid, roleid oid, member oid, grantor oid, admin_option bool, inherit_option bool, set_option bool
pg_authid: oid oid, rolname name, rolsuper bool = false, rolinherit bool = true, rolcreaterole bool = false, rolcreatedb bool = false, rolcanlogin bool = true, rolreplication bool = false, rolbypassrls bool = false, rolconnlimit int4 = -1, rolpassword text, rolvaliduntil time
pg_available_extensions: name name, default_version text, installed_version text, comment text
pg_available_extension_versions: name name, version text, installed bool, superuser bool, trusted bool, relocatable bool, schema name, requires texts, comment text
pg_cast: oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, castmethod char
pg_class: oid oid, relname name, relnamespace oid, reltype oid = 0, reloftype oid = 0, relowner oid = 10, relam oid = 2, relfilenode oid = 0, reltablespace oid = 0, relpages int4 = 0, reltuples float4 = -1, relallvisible int4 = 0, reltoastrelid oid = 0, relhasindex bool = false, relisshared bool = false, relpersistence char = 'p', relkind char = 'r', relnatts int2 = 0, relchecks int2 = 0, relhasrules bool = false, relhastriggers bool = false, relhassubclass bool = false, relrowsecurity bool = false, relforcerowsecurity bool = false, relispopulated bool = true, relreplident char = 'd', relispartition bool = false, relrewrite oid = 0, relfrozenxid oid = 0, relminmxid oid = 0, relacl texts, reloptions texts, relpartbound text, relhasoids bool = false
pg_collation: oid oid, collname name, collnamespace oid, collowner oid, collprovider char, collisdeterministic bool, collencoding int4, collcollate text, collctype text, colliculocale text, collicurules text, collversion text
pg_constraint: oid oid, conname name, connamespace oid, contype char, condeferrable bool, condeferred bool, convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, confupdtype char, confdeltype char, confmatchtype char, conislocal bool, coninhcount int4, connoinherit bool, conkey int2s, confkey int2s, conpfeqop oids, conexclop oids, conbin text, consrc text
pg_conversion: oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, contoencoding int4, conproc oid, condefault bool
pg_cursors: name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, creation_time time
pg_database: oid oid, datname name, datdba oid = 10, encoding int4 = 6, datlocprovider char = 'c', datistemplate bool = false, datallowconn bool = true, datconnlimit int4 = -1, datlastsysoid oid = 0, datfrozenxid oid = 0, datminmxid oid = 0, dattablespace oid = 1663, datcollate text = 'C', datctype text = 'C', daticulocale text, daticurules text, datcollversion text, datacl texts, datlocale text, dathasloginevt bool = false
pg_db_role_setting: setdatabase oid, setrole oid, setconfig texts
pg_default_acl: oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl texts
pg_depend: classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, deptype char
pg_description: objoid oid, classoid oid, objsubid int4, description text
pg_enum: oid oid, enumtypid oid, enumsortorder float4, enumlabel name
pg_event_trigger: oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled char, evttags texts
pg_extension: oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, extconfig oids, extcondition texts
pg_foreign_data_wrapper: oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl texts, fdwoptions texts
pg_foreign_server: oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion text, srvacl texts, srvoptions texts
pg_foreign_table: ftrelid oid, ftserver oid, ftoptions texts
pg_index: indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, indkey int2s, indcollation oids, indclass oids, indoption int2s, indexprs text, indpred text
pg_indexes: schemaname name, tablename name, indexname name, tablespace name, indexdef text
pg_inherits: inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool
pg_language: oid oid, lanname name, lanowner oid = 10, lanispl bool = false, lanpltrusted bool = true, lanplcallfoid oid = 0, laninline oid = 0, lanvalidator oid = 0, lanacl texts
pg_locks: locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, transactionid oid, classid oid, objid oid, objsubid int2, virtualtransaction text, pid int4, mode text, granted bool, fastpath bool, waitstart time
pg_matviews: schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated bool, definition text
pg_namespace: oid oid, nspname name, nspowner oid = 10, nspacl texts
pg_opclass: oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, opcintype oid, opcdefault bool, opckeytype oid
pg_operator: oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprcanmerge bool, oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, oprcode oid
pg_opfamily: oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid
pg_partitioned_table: partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs int2s, partclass oids, partcollation oids, partexprs text
pg_policies: schemaname name, tablename name, policyname name, permissive text, roles texts, cmd text, qual text, with_check text
pg_policy: oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles oids, polqual text, polwithcheck text
pg_prepared_statements: name text, statement text, prepare_time time, parameter_types texts, result_types texts, from_sql bool
pg_proc: oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, prorows float4, provariadic oid, prosupport oid, prokind char, prosecdef bool, proleakproof bool, proisstrict bool, proretset bool, provolatile char, proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, proargtypes oids, proallargtypes oids, proargmodes texts, proargnames texts, proargdefaults text, protrftypes oids, prosrc text, probin text, prosqlbody text, proconfig texts, proacl texts, proisagg bool
pg_publication: oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool
pg_publication_namespace: oid oid, pnpubid oid, pnnspid oid
pg_publication_rel: oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2s
pg_publication_tables: pubname name, schemaname name, tablename name, attnames texts, rowfilter text
pg_range: rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid, rngcanonical oid, rngsubdiff oid
pg_rewrite: oid oid, rulename name, ev_class oid, ev_type char, ev_enabled char, is_instead bool, ev_qual text, ev_action text
pg_roles: rolname name, rolsuper bool = false, rolinherit bool = true, rolcreaterole bool = false, rolcreatedb bool = false, rolcanlogin bool = true, rolreplication bool = false, rolconnlimit int4 = -1, rolpassword text = '********', rolvaliduntil time, rolbypassrls bool = false, rolconfig texts, oid oid
pg_rules: schemaname name, tablename name, rulename name, definition text
pg_sequence: seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache int8, seqcycle bool
pg_sequences: schemaname name, sequencename name, sequenceowner name, data_type text, start_value int8, min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8
pg_settings: name text, setting text, unit text, category text = 'Headrace', short_desc text = '', extra_desc text, context text = 'user', vartype text = 'string', source text = 'session', min_val text, max_val text, enumvals texts, boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool = false
pg_shdepend: dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, deptype char
pg_shdescription: objoid oid, classoid oid, description text
pg_stat_activity: datid oid, datname name, pid int4, usesysid oid, usename name, application_name text, client_addr text, client_hostname text, client_port int4, backend_start time, xact_start time, query_start time, state_change time, wait_event_type text, wait_event text, state text, backend_xid oid, backend_xmin oid, query_id int8, query text, backend_type text
pg_stat_all_tables: relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_live_tup int8, n_dead_tup int8, last_vacuum time, last_autovacuum time, last_analyze time, last_autoanalyze time
pg_stat_user_tables: relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_live_tup int8, n_dead_tup int8, last_vacuum time, last_autovacuum time, last_analyze time, last_autoanalyze time
pg_statistic_ext: oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2s, stxkind texts, stxexprs text
pg_stats: schemaname name, tablename name, attname name, inherited bool, null_frac float4, avg_width int4, n_distinct float4, most_common_vals text, most_common_freqs text, histogram_bounds text, correlation float4
pg_subscription: oid oid, subdbid oid, subname name, subowner oid, subenabled bool
pg_tables: schemaname name = 'public', tablename name, tableowner name = 'headrace', tablespace name, hasindexes bool = false, hasrules bool = false, hastriggers bool = false, rowsecurity bool = false
pg_tablespace: oid oid, spcname name, spcowner oid = 10, spcacl texts, spcoptions texts
pg_timezone_abbrevs: abbrev text, utc_offset text, is_dst bool
pg_timezone_names: name text, abbrev text, utc_offset text, is_dst bool
pg_trigger: oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2s, tgargs text, tgqual text, tgoldtable name, tgnewtable name
pg_ts_config: oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid
pg_ts_dict: oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, dictinitoption text
pg_type: oid oid, typname name, typnamespace oid = 11, typowner oid = 10, typlen int2, typbyval bool = false, typtype char = 'b', typcategory char, typispreferred bool = false, typisdefined bool = true, typdelim char = ',', typrelid oid = 0, typsubscript text = '-', typelem oid = 0, typarray oid = 0, typinput text = '-', typoutput text = '-', typreceive text = '-', typsend text = '-', typmodin text = '-', typmodout text = '-', typanalyze text = '-', typalign char = 'i', typstorage char = 'p', typnotnull bool = false, typbasetype oid = 0, typtypmod int4 = -1, typndims int4 = 0, typcollation oid = 0, typdefaultbin text, typdefault text, typacl texts
pg_user: usename name, usesysid oid, usecreatedb bool = false, usesuper bool = false, userepl bool = false, usebypassrls bool = false, passwd text = '********', valuntil time, useconfig texts
pg_user_mapping: oid oid, umuser oid, umserver oid, umoptions texts
pg_user_mappings: umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions texts
pg_views: schemaname name, viewname name, viewowner name, definition text
"""  # noqa: E501 - one relation a line

_INFORMATION_SCHEMA: Final = """
character_sets: character_set_catalog name, character_set_schema name, character_set_name name, character_repertoire name, form_of_use name, default_collate_catalog name, default_collate_schema name, default_collate_name name
check_constraints: constraint_catalog name, constraint_schema name, constraint_name name, check_clause text
column_privileges: grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name name, privilege_type text, is_grantable text
columns: table_catalog name, table_schema name = 'public', table_name name, column_name name, ordinal_position int4, column_default text, is_nullable text = 'YES', data_type text, character_maximum_length int4, character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type text, interval_precision int4, character_set_catalog name, character_set_schema name, character_set_name name, collation_catalog name, collation_schema name, collation_name name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name, udt_schema name = 'pg_catalog', udt_name name, scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name, is_self_referencing text = 'NO', is_identity text = 'NO', identity_generation text, identity_start text, identity_increment text, identity_maximum text, identity_minimum text, identity_cycle text = 'NO', is_generated text = 'NEVER', generation_expression text, is_updatable text = 'NO'
constraint_column_usage: table_catalog name, table_schema name, table_name name, column_name name, constraint_catalog name, constraint_schema name, constraint_name name
constraint_table_usage: table_catalog name, table_schema name, table_name name, constraint_catalog name, constraint_schema name, constraint_name name
domains: domain_catalog name, domain_schema name, domain_name name, data_type text
element_types: object_catalog name, object_schema name, object_name name, object_type text, collection_type_identifier name, data_type text
key_column_usage: constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4, position_in_unique_constraint int4
parameters: specific_catalog name, specific_schema name, specific_name name, ordinal_position int4, parameter_mode text, is_result text, as_locator text, parameter_name name, data_type text
referential_constraints: constraint_catalog name, constraint_schema name, constraint_name name, unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, match_option text, update_rule text, delete_rule text
role_table_grants: grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type text, is_grantable text, with_hierarchy text
routines: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, routine_type text, data_type text, routine_definition text
schemata: catalog_name name, schema_name name, schema_owner name = 'headrace', default_character_set_catalog name, default_character_set_schema name, default_character_set_name name, sql_path text
sequences: sequence_catalog name, sequence_schema name, sequence_name name, data_type text, start_value text, minimum_value text, maximum_value text, increment text, cycle_option text
table_constraints: constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, table_name name, constraint_type text, is_deferrable text, initially_deferred text, enforced text, nulls_distinct text
table_privileges: grantor name = 'headrace', grantee name = 'PUBLIC', table_catalog name, table_schema name = 'public', table_name name, privilege_type text = 'SELECT', is_grantable text = 'NO', with_hierarchy text = 'YES'
tables: table_catalog name, table_schema name = 'public', table_name name, table_type text = 'BASE TABLE', self_referencing_column_name name, reference_generation text, user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name name, is_insertable_into text = 'NO', is_typed text = 'NO', commit_action text
triggers: trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation text, event_object_catalog name, event_object_schema name, event_object_table name, action_timing text
views: table_catalog name, table_schema name, table_name name, view_definition text, check_option text, is_updatable text, is_insertable_into text
"""  # noqa: E501 - one relation a line


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationColumn:
    """A column with its DuckDB type and the SQL of its default."""

    name: str
    duckdb: str
    default: str


def _relations(text: str) -> dict[str, tuple[RelationColumn, ...]]:
    found: dict[str, tuple[RelationColumn, ...]] = {}
    for line in text.strip().splitlines():
        name, _, columns = line.partition(": ")
        # PostgreSQL does not show the last one in `*`; clients that ask for it name it.
        found[name] = (*(_column(column) for column in columns.split(", ")), _column("tableoid oid = 0"))
    return found


def _column(text: str) -> RelationColumn:
    declared, _, default = text.partition(" = ")
    name, kind = declared.split()
    return RelationColumn(name=name, duckdb=_TYPES[kind], default=default or "NULL")


PG_CATALOG: Final = "pg_catalog"
INFORMATION_SCHEMA: Final = "information_schema"
# (schema, relation) to its columns.
RELATIONS: Final = {
    **{(PG_CATALOG, name): columns for name, columns in _relations(_PG_CATALOG).items()},
    **{(INFORMATION_SCHEMA, name): columns for name, columns in _relations(_INFORMATION_SCHEMA).items()},
}
