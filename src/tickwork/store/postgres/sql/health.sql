-- Health checks: the state of the server and of Tickwork's tables.

-- :health
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') <> '' AS standbys, current_setting('server_encoding') AS encoding,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS wall_us,
       (SELECT count(*) FROM tickwork.running r
        WHERE  (r.worker IN (SELECT w.id FROM tickwork.workers w
                             WHERE  w.lease_until < coalesce(%(now)s::timestamptz, clock_timestamp()) - interval '1 minute')) IS TRUE) AS stuck,
       c.stepped_at, c.step
FROM   (VALUES (1)) AS always LEFT JOIN tickwork.clock c
       ON c.stepped_at > coalesce(%(now)s::timestamptz, clock_timestamp()) - interval '1 day'

-- :oldest_transactions
-- The transactions that keep dead rows: open ones, and prepared ones that were not ended.
SELECT * FROM (
    SELECT format('session %%s of %%s (%%s, %%s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'unnamed'), a.state)
           AS who, clock_timestamp() - a.xact_start AS age, format('SELECT pg_terminate_backend(%%s) ends it.', a.pid) AS cure
    FROM   pg_stat_activity a
    WHERE  a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database()
    AND    a.backend_type = 'client backend'
    UNION  ALL
    SELECT format('prepared transaction %%s of %%s', p.gid, p.owner), clock_timestamp() - p.prepared,
           format('ROLLBACK PREPARED %%L ends it.', p.gid)
    FROM   pg_prepared_xacts p WHERE p.database = current_database()
) held ORDER BY age DESC LIMIT 5

-- :table_sizes
SELECT c.relname::text AS name, pg_size_pretty(pg_total_relation_size(c.oid)) AS size,
       coalesce(pg_stat_get_dead_tuples(c.oid), 0) AS dead, c.relname IN ('queue', 'running', 'workers') AS hot
FROM   pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND c.relkind = 'r' ORDER BY c.relname
