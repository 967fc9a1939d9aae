"""The columns of the catalogue's relations, by PostgreSQL's names.

One line for each relation, or for several with the same columns: `name …: column type [= default], …`. A row
gives the columns that differ from the default, which is NULL if there is none. A relation that nothing fills
has no rows, as in a database without such objects. Clients name columns, so a column that is missing here is
an error that they show.
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
pg_amop: oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, amoppurpose char, amopopr oid, amopmethod oid, amopsortfamily oid
pg_amproc: oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum int2, amproc text
pg_attrdef: oid oid, adrelid oid, adnum int2, adbin text
pg_attribute: attrelid oid, attname name, atttypid oid, attstattarget int4 = -1, attlen int2, attnum int2, attndims int4 = 0, attcacheoff int4 = -1, atttypmod int4 = -1, attbyval bool = false, attalign char = 'i', attstorage char = 'p', attcompression char = '', attnotnull bool = false, atthasdef bool = false, atthasmissing bool = false, attidentity char = '', attgenerated char = '', attisdropped bool = false, attislocal bool = true, attinhcount int4 = 0, attcollation oid = 0, attacl texts, attoptions texts, attfdwoptions texts, attmissingval text
pg_auth_members: oid oid, roleid oid, member oid, grantor oid, admin_option bool, inherit_option bool, set_option bool
pg_authid: oid oid, rolname name, rolsuper bool = false, rolinherit bool = true, rolcreaterole bool = false, rolcreatedb bool = false, rolcanlogin bool = true, rolreplication bool = false, rolbypassrls bool = false, rolconnlimit int4 = -1, rolpassword text, rolvaliduntil time
pg_available_extension_versions: name name, version text, installed bool, superuser bool, trusted bool, relocatable bool, schema name, requires texts, comment text
pg_available_extensions: name name, default_version text, installed_version text, comment text
pg_backend_memory_contexts: name text, ident text, parent text, level int4, total_bytes int8, total_nblocks int8, free_bytes int8, free_chunks int8, used_bytes int8
pg_cast: oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, castmethod char
pg_class: oid oid, relname name, relnamespace oid, reltype oid = 0, reloftype oid = 0, relowner oid = 10, relam oid = 2, relfilenode oid = 0, reltablespace oid = 0, relpages int4 = 0, reltuples float4 = -1, relallvisible int4 = 0, reltoastrelid oid = 0, relhasindex bool = false, relisshared bool = false, relpersistence char = 'p', relkind char = 'r', relnatts int2 = 0, relchecks int2 = 0, relhasrules bool = false, relhastriggers bool = false, relhassubclass bool = false, relrowsecurity bool = false, relforcerowsecurity bool = false, relispopulated bool = true, relreplident char = 'd', relispartition bool = false, relrewrite oid = 0, relfrozenxid oid = 0, relminmxid oid = 0, relacl texts = ['=r/headrace'], reloptions texts, relpartbound text, relhasoids bool = false
pg_collation: oid oid, collname name, collnamespace oid, collowner oid, collprovider char, collisdeterministic bool, collencoding int4, collcollate text, collctype text, colliculocale text, collicurules text, collversion text
pg_config: name text, setting text
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
pg_file_settings: sourcefile text, sourceline int4, seqno int4, name text, setting text, applied bool, error text
pg_foreign_data_wrapper: oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl texts, fdwoptions texts
pg_foreign_server: oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion text, srvacl texts, srvoptions texts
pg_foreign_table: ftrelid oid, ftserver oid, ftoptions texts
pg_group: groname name, grosysid oid, grolist oids
pg_hba_file_rules: line_number int4, type text, database texts, user_name texts, address text, netmask text, auth_method text, options texts, error text
pg_ident_file_mappings: line_number int4, map_name text, sys_name text, pg_username text, error text
pg_index: indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, indkey int2s, indcollation oids, indclass oids, indoption int2s, indexprs text, indpred text
pg_indexes: schemaname name, tablename name, indexname name, tablespace name, indexdef text
pg_inherits: inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool
pg_init_privs: objoid oid, classoid oid, objsubid int4, privtype char, initprivs texts
pg_language: oid oid, lanname name, lanowner oid = 10, lanispl bool = false, lanpltrusted bool = true, lanplcallfoid oid = 0, laninline oid = 0, lanvalidator oid = 0, lanacl texts
pg_largeobject: loid oid, pageno int4, data text
pg_largeobject_metadata: oid oid, lomowner oid, lomacl texts
pg_locks: locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, transactionid oid, classid oid, objid oid, objsubid int2, virtualtransaction text, pid int4, mode text, granted bool, fastpath bool, waitstart time
pg_matviews: schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated bool, definition text
pg_namespace: oid oid, nspname name, nspowner oid = 10, nspacl texts
pg_opclass: oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, opcintype oid, opcdefault bool, opckeytype oid
pg_operator: oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprcanmerge bool, oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, oprcode oid
pg_opfamily: oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid
pg_parameter_acl: oid oid, parname text, paracl texts
pg_partitioned_table: partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs int2s, partclass oids, partcollation oids, partexprs text
pg_policies: schemaname name, tablename name, policyname name, permissive text, roles texts, cmd text, qual text, with_check text
pg_policy: oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles oids, polqual text, polwithcheck text
pg_prepared_statements: name text, statement text, prepare_time time, parameter_types texts, result_types texts, from_sql bool
pg_prepared_xacts: transaction oid, gid text, prepared time, owner name, database name
pg_proc: oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, prorows float4, provariadic oid, prosupport oid, prokind char, prosecdef bool, proleakproof bool, proisstrict bool, proretset bool, provolatile char, proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, proargtypes oids, proallargtypes oids, proargmodes texts, proargnames texts, proargdefaults text, protrftypes oids, prosrc text, probin text, prosqlbody text, proconfig texts, proacl texts, proisagg bool
pg_publication: oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool
pg_publication_namespace: oid oid, pnpubid oid, pnnspid oid
pg_publication_rel: oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2s
pg_publication_tables: pubname name, schemaname name, tablename name, attnames texts, rowfilter text
pg_range: rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid, rngcanonical oid, rngsubdiff oid
pg_replication_origin: roident oid, roname text
pg_replication_origin_status: local_id oid, external_id text, remote_lsn text, local_lsn text
pg_replication_slots: slot_name name, plugin name, slot_type text, datoid oid, database name, temporary bool, active bool, active_pid int4, xmin oid, catalog_xmin oid, restart_lsn text, confirmed_flush_lsn text, wal_status text, safe_wal_size int8, two_phase bool, conflicting bool
pg_rewrite: oid oid, rulename name, ev_class oid, ev_type char, ev_enabled char, is_instead bool, ev_qual text, ev_action text
pg_roles: rolname name, rolsuper bool = false, rolinherit bool = true, rolcreaterole bool = false, rolcreatedb bool = false, rolcanlogin bool = true, rolreplication bool = false, rolconnlimit int4 = -1, rolpassword text = '********', rolvaliduntil time, rolbypassrls bool = false, rolconfig texts, oid oid
pg_rules: schemaname name, tablename name, rulename name, definition text
pg_seclabel: objoid oid, classoid oid, objsubid int4, provider text, label text
pg_seclabels: objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname text, provider text, label text
pg_sequence: seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache int8, seqcycle bool
pg_sequences: schemaname name, sequencename name, sequenceowner name, data_type text, start_value int8, min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8
pg_settings: name text, setting text, unit text, category text = 'Headrace', short_desc text = '', extra_desc text, context text = 'user', vartype text = 'string', source text = 'session', min_val text, max_val text, enumvals texts, boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool = false
pg_shadow: usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, passwd text, valuntil time, useconfig texts
pg_shdepend: dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, deptype char
pg_shdescription: objoid oid, classoid oid, description text
pg_shmem_allocations: name text, off int8, size int8, allocated_size int8
pg_shseclabel: objoid oid, classoid oid, provider text, label text
pg_stat_activity: datid oid, datname name, pid int4, usesysid oid, usename name, application_name text, client_addr text, client_hostname text, client_port int4, backend_start time, xact_start time, query_start time, state_change time, wait_event_type text, wait_event text, state text, backend_xid oid, backend_xmin oid, query_id int8, query text, backend_type text
pg_stat_all_indexes pg_stat_sys_indexes pg_stat_user_indexes: relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_scan int8, last_idx_scan time, idx_tup_read int8, idx_tup_fetch int8
pg_stat_all_tables pg_stat_sys_tables pg_stat_user_tables: relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_live_tup int8, n_dead_tup int8, last_vacuum time, last_autovacuum time, last_analyze time, last_autoanalyze time
pg_stat_archiver: archived_count int8, last_archived_wal text, last_archived_time time, failed_count int8, last_failed_wal text, last_failed_time time, stats_reset time
pg_stat_bgwriter: checkpoints_timed int8, checkpoints_req int8, checkpoint_write_time float8, checkpoint_sync_time float8, buffers_checkpoint int8, buffers_clean int8, maxwritten_clean int8, buffers_backend int8, buffers_backend_fsync int8, buffers_alloc int8, stats_reset time
pg_stat_database: datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, blks_read int8, blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, tup_updated int8, tup_deleted int8, conflicts int8, temp_files int8, temp_bytes int8, deadlocks int8, checksum_failures int8, checksum_last_failure time, blk_read_time float8, blk_write_time float8, session_time float8, active_time float8, idle_in_transaction_time float8, sessions int8, sessions_abandoned int8, sessions_fatal int8, sessions_killed int8, stats_reset time
pg_stat_database_conflicts: datid oid, datname name, confl_tablespace int8, confl_lock int8, confl_snapshot int8, confl_bufferpin int8, confl_deadlock int8, confl_active_logicalslot int8
pg_stat_gssapi: pid int4, gss_authenticated bool, principal text, encrypted bool, credentials_delegated bool
pg_stat_io: backend_type text, object text, context text, reads int8, read_time float8, writes int8, write_time float8, writebacks int8, writeback_time float8, extends int8, extend_time float8, op_bytes int8, hits int8, evictions int8, reuses int8, fsyncs int8, fsync_time float8, stats_reset time
pg_stat_progress_analyze: pid int4, datid oid, datname name, relid oid, phase text, sample_blks_total int8, sample_blks_scanned int8, ext_stats_total int8, ext_stats_computed int8, child_tables_total int8, child_tables_done int8, current_child_table_relid oid
pg_stat_progress_basebackup: pid int4, phase text, backup_total int8, backup_streamed int8, tablespaces_total int8, tablespaces_streamed int8
pg_stat_progress_cluster: pid int4, datid oid, datname name, relid oid, command text, phase text, cluster_index_relid oid, heap_tuples_scanned int8, heap_tuples_written int8, heap_blks_total int8, heap_blks_scanned int8, index_rebuild_count int8
pg_stat_progress_copy: pid int4, datid oid, datname name, relid oid, command text, type text, bytes_processed int8, bytes_total int8, tuples_processed int8, tuples_excluded int8
pg_stat_progress_create_index: pid int4, datid oid, datname name, relid oid, index_relid oid, command text, phase text, lockers_total int8, lockers_done int8, current_locker_pid int8, blocks_total int8, blocks_done int8, tuples_total int8, tuples_done int8, partitions_total int8, partitions_done int8
pg_stat_progress_vacuum: pid int4, datid oid, datname name, relid oid, phase text, heap_blks_total int8, heap_blks_scanned int8, heap_blks_vacuumed int8, index_vacuum_count int8, max_dead_tuples int8, num_dead_tuples int8
pg_stat_recovery_prefetch: stats_reset time, prefetch int8, hit int8, skip_init int8, skip_new int8, skip_fpw int8, skip_rep int8, wal_distance int4, block_distance int4, io_depth int4
pg_stat_replication: pid int4, usesysid oid, usename name, application_name text, client_addr text, client_hostname text, client_port int4, backend_start time, backend_xmin oid, state text, sent_lsn text, write_lsn text, flush_lsn text, replay_lsn text, write_lag text, flush_lag text, replay_lag text, sync_priority int4, sync_state text, reply_time time
pg_stat_replication_slots: slot_name text, spill_txns int8, spill_count int8, spill_bytes int8, stream_txns int8, stream_count int8, stream_bytes int8, total_txns int8, total_bytes int8, stats_reset time
pg_stat_slru: name text, blks_zeroed int8, blks_hit int8, blks_read int8, blks_written int8, blks_exists int8, flushes int8, truncates int8, stats_reset time
pg_stat_ssl: pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial int8, issuer_dn text
pg_stat_subscription: subid oid, subname name, pid int4, leader_pid int4, relid oid, received_lsn text, last_msg_send_time time, last_msg_receipt_time time, latest_end_lsn text, latest_end_time time
pg_stat_subscription_stats: subid oid, subname name, apply_error_count int8, sync_error_count int8, stats_reset time
pg_stat_user_functions pg_stat_xact_user_functions: funcid oid, schemaname name, funcname name, calls int8, total_time float8, self_time float8
pg_stat_wal: wal_records int8, wal_fpi int8, wal_bytes int8, wal_buffers_full int8, wal_write int8, wal_sync int8, wal_write_time float8, wal_sync_time float8, stats_reset time
pg_stat_wal_receiver: pid int4, status text, receive_start_lsn text, receive_start_tli int4, written_lsn text, flushed_lsn text, received_tli int4, last_msg_send_time time, last_msg_receipt_time time, latest_end_lsn text, latest_end_time time, slot_name text, sender_host text, sender_port int4, conninfo text
pg_stat_xact_all_tables pg_stat_xact_sys_tables pg_stat_xact_user_tables: relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, n_tup_newpage_upd int8
pg_statio_all_indexes pg_statio_sys_indexes pg_statio_user_indexes: relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_blks_read int8, idx_blks_hit int8
pg_statio_all_sequences pg_statio_sys_sequences pg_statio_user_sequences: relid oid, schemaname name, relname name, blks_read int8, blks_hit int8
pg_statio_all_tables pg_statio_sys_tables pg_statio_user_tables: relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8, idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, tidx_blks_hit int8
pg_statistic: starelid oid, staattnum int2, stainherit bool, stanullfrac float4, stawidth int4, stadistinct float4
pg_statistic_ext: oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2s, stxkind texts, stxexprs text
pg_statistic_ext_data: stxoid oid, stxdinherit bool, stxdndistinct text, stxddependencies text, stxdmcv text, stxdexpr text
pg_stats: schemaname name, tablename name, attname name, inherited bool, null_frac float4, avg_width int4, n_distinct float4, most_common_vals text, most_common_freqs text, histogram_bounds text, correlation float4
pg_stats_ext: schemaname name, tablename name, statistics_schemaname name, statistics_name name, statistics_owner name, attnames texts, exprs texts, kinds texts, inherited bool, n_distinct text, dependencies text, most_common_vals texts
pg_stats_ext_exprs: schemaname name, tablename name, statistics_schemaname name, statistics_name name, statistics_owner name, expr text, inherited bool, null_frac float4, avg_width int4, n_distinct float4
pg_subscription: oid oid, subdbid oid, subname name, subowner oid, subenabled bool
pg_subscription_rel: srsubid oid, srrelid oid, srsubstate char, srsublsn text
pg_tables: schemaname name = 'public', tablename name, tableowner name = 'headrace', tablespace name, hasindexes bool = false, hasrules bool = false, hastriggers bool = false, rowsecurity bool = false
pg_tablespace: oid oid, spcname name, spcowner oid = 10, spcacl texts, spcoptions texts
pg_timezone_abbrevs: abbrev text, utc_offset text, is_dst bool
pg_timezone_names: name text, abbrev text, utc_offset text, is_dst bool
pg_transform: oid oid, trftype oid, trflang oid, trffromsql text, trftosql text
pg_trigger: oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2s, tgargs text, tgqual text, tgoldtable name, tgnewtable name
pg_ts_config: oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid
pg_ts_config_map: mapcfg oid, maptokentype int4, mapseqno int4, mapdict oid
pg_ts_dict: oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, dictinitoption text
pg_ts_parser: oid oid, prsname name, prsnamespace oid, prsstart text, prstoken text, prsend text, prsheadline text, prslextype text
pg_ts_template: oid oid, tmplname name, tmplnamespace oid, tmplinit text, tmpllexize text
pg_type: oid oid, typname name, typnamespace oid = 11, typowner oid = 10, typlen int2, typbyval bool = false, typtype char = 'b', typcategory char, typispreferred bool = false, typisdefined bool = true, typdelim char = ',', typrelid oid = 0, typsubscript text = '-', typelem oid = 0, typarray oid = 0, typinput text = '-', typoutput text = '-', typreceive text = '-', typsend text = '-', typmodin text = '-', typmodout text = '-', typanalyze text = '-', typalign char = 'i', typstorage char = 'p', typnotnull bool = false, typbasetype oid = 0, typtypmod int4 = -1, typndims int4 = 0, typcollation oid = 0, typdefaultbin text, typdefault text, typacl texts
pg_user: usename name, usesysid oid, usecreatedb bool = false, usesuper bool = false, userepl bool = false, usebypassrls bool = false, passwd text = '********', valuntil time, useconfig texts
pg_user_mapping: oid oid, umuser oid, umserver oid, umoptions texts
pg_user_mappings: umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions texts
pg_views: schemaname name, viewname name, viewowner name, definition text
"""  # noqa: E501 - one relation a line

_INFORMATION_SCHEMA: Final = """
administrable_role_authorizations applicable_roles: grantee name, role_name name, is_grantable text
attributes: udt_catalog name, udt_schema name, udt_name name, attribute_name name, ordinal_position int4, attribute_default text, is_nullable text, data_type text, attribute_udt_catalog name, attribute_udt_schema name, attribute_udt_name name
character_sets: character_set_catalog name, character_set_schema name, character_set_name name, character_repertoire name, form_of_use name, default_collate_catalog name, default_collate_schema name, default_collate_name name
check_constraint_routine_usage: constraint_catalog name, constraint_schema name, constraint_name name, specific_catalog name, specific_schema name, specific_name name
check_constraints: constraint_catalog name, constraint_schema name, constraint_name name, check_clause text
collation_character_set_applicability: collation_catalog name, collation_schema name, collation_name name, character_set_catalog name, character_set_schema name, character_set_name name
collations: collation_catalog name, collation_schema name, collation_name name, pad_attribute text
column_column_usage: table_catalog name, table_schema name, table_name name, column_name name, dependent_column name
column_domain_usage: domain_catalog name, domain_schema name, domain_name name, table_catalog name, table_schema name, table_name name, column_name name
column_options: table_catalog name, table_schema name, table_name name, column_name name, option_name name, option_value text
column_privileges: grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name name, privilege_type text, is_grantable text
column_udt_usage: udt_catalog name, udt_schema name, udt_name name, table_catalog name, table_schema name, table_name name, column_name name
columns: table_catalog name, table_schema name = 'public', table_name name, column_name name, ordinal_position int4, column_default text, is_nullable text = 'YES', data_type text, character_maximum_length int4, character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type text, interval_precision int4, character_set_catalog name, character_set_schema name, character_set_name name, collation_catalog name, collation_schema name, collation_name name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name, udt_schema name = 'pg_catalog', udt_name name, scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name, is_self_referencing text = 'NO', is_identity text = 'NO', identity_generation text, identity_start text, identity_increment text, identity_maximum text, identity_minimum text, identity_cycle text = 'NO', is_generated text = 'NEVER', generation_expression text, is_updatable text = 'NO'
constraint_column_usage: table_catalog name, table_schema name, table_name name, column_name name, constraint_catalog name, constraint_schema name, constraint_name name
constraint_table_usage: table_catalog name, table_schema name, table_name name, constraint_catalog name, constraint_schema name, constraint_name name
data_type_privileges: object_catalog name, object_schema name, object_name name, object_type text, dtd_identifier name
domain_constraints: constraint_catalog name, constraint_schema name, constraint_name name, domain_catalog name, domain_schema name, domain_name name, is_deferrable text, initially_deferred text
domain_udt_usage: udt_catalog name, udt_schema name, udt_name name, domain_catalog name, domain_schema name, domain_name name
domains: domain_catalog name, domain_schema name, domain_name name, data_type text
element_types: object_catalog name, object_schema name, object_name name, object_type text, collection_type_identifier name, data_type text
enabled_roles: role_name name
foreign_data_wrapper_options: foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, option_name name, option_value text
foreign_data_wrappers: foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, authorization_identifier name, library_name text, foreign_data_wrapper_language text
foreign_server_options: foreign_server_catalog name, foreign_server_name name, option_name name, option_value text
foreign_servers: foreign_server_catalog name, foreign_server_name name, foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, foreign_server_type text, foreign_server_version text, authorization_identifier name
foreign_table_options: foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, option_name name, option_value text
foreign_tables: foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, foreign_server_catalog name, foreign_server_name name
information_schema_catalog_name: catalog_name name
key_column_usage: constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4, position_in_unique_constraint int4
parameters: specific_catalog name, specific_schema name, specific_name name, ordinal_position int4, parameter_mode text, is_result text, as_locator text, parameter_name name, data_type text
referential_constraints: constraint_catalog name, constraint_schema name, constraint_name name, unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, match_option text, update_rule text, delete_rule text
role_column_grants: grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name name, privilege_type text, is_grantable text
role_routine_grants routine_privileges: grantor name, grantee name, specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, privilege_type text, is_grantable text
role_table_grants: grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type text, is_grantable text, with_hierarchy text
role_udt_grants udt_privileges: grantor name, grantee name, udt_catalog name, udt_schema name, udt_name name, privilege_type text, is_grantable text
role_usage_grants usage_privileges: grantor name, grantee name, object_catalog name, object_schema name, object_name name, object_type text, privilege_type text, is_grantable text
routine_column_usage: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, table_catalog name, table_schema name, table_name name, column_name name
routine_routine_usage: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name
routine_sequence_usage: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, sequence_catalog name, sequence_schema name, sequence_name name
routine_table_usage: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, table_catalog name, table_schema name, table_name name
routines: specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, routine_type text, data_type text, routine_definition text
schemata: catalog_name name, schema_name name, schema_owner name = 'headrace', default_character_set_catalog name, default_character_set_schema name, default_character_set_name name, sql_path text
sequences: sequence_catalog name, sequence_schema name, sequence_name name, data_type text, start_value text, minimum_value text, maximum_value text, increment text, cycle_option text
sql_features: feature_id text, feature_name text, sub_feature_id text, sub_feature_name text, is_supported text, is_verified_by text, comments text
sql_implementation_info: implementation_info_id text, implementation_info_name text, integer_value int4, character_value text, comments text
sql_parts: feature_id text, feature_name text, is_supported text, is_verified_by text, comments text
sql_sizing: sizing_id int4, sizing_name text, supported_value int4, comments text
table_constraints: constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, table_name name, constraint_type text, is_deferrable text, initially_deferred text, enforced text, nulls_distinct text
table_privileges: grantor name = 'headrace', grantee name = 'PUBLIC', table_catalog name, table_schema name = 'public', table_name name, privilege_type text = 'SELECT', is_grantable text = 'NO', with_hierarchy text = 'YES'
tables: table_catalog name, table_schema name = 'public', table_name name, table_type text = 'BASE TABLE', self_referencing_column_name name, reference_generation text, user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name name, is_insertable_into text = 'NO', is_typed text = 'NO', commit_action text
transforms: udt_catalog name, udt_schema name, udt_name name, specific_catalog name, specific_schema name, specific_name name, group_name name, transform_type text
triggered_update_columns: trigger_catalog name, trigger_schema name, trigger_name name, event_object_catalog name, event_object_schema name, event_object_table name, event_object_column name
triggers: trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation text, event_object_catalog name, event_object_schema name, event_object_table name, action_timing text
user_defined_types: user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name name, user_defined_type_category text, is_instantiable text, is_final text, data_type text
user_mapping_options: authorization_identifier name, foreign_server_catalog name, foreign_server_name name, option_name name, option_value text
user_mappings: authorization_identifier name, foreign_server_catalog name, foreign_server_name name
view_column_usage: view_catalog name, view_schema name, view_name name, table_catalog name, table_schema name, table_name name, column_name name
view_routine_usage: table_catalog name, table_schema name, table_name name, specific_catalog name, specific_schema name, specific_name name
view_table_usage: view_catalog name, view_schema name, view_name name, table_catalog name, table_schema name, table_name name
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
        names, _, columns = line.partition(": ")
        # PostgreSQL does not show the last one in `*`; clients that ask for it name it.
        listed = (*(_column(column) for column in columns.split(", ")), _column("tableoid oid = 0"))
        found |= dict.fromkeys(names.split(), listed)
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
