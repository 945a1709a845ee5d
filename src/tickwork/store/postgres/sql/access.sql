-- Access: API keys, users, sessions, logins, the audit log, kept answers and secrets.

-- :put_api_key
INSERT INTO tickwork.api_keys (id, name, digest, scopes, created_at, created_by, expires_at)
SELECT %(id)s, %(name)s, %(digest)s, %(scopes)s, clock.now, %(by)s, clock.now + %(lasts)s::bigint * interval '1 microsecond'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT DO NOTHING
RETURNING id

-- :api_key_columns
SELECT k.id, k.name, k.digest, k.scopes, k.created_at, k.created_by, k.expires_at, k.used_at, k.revoked_at,
       k.expires_at IS NOT NULL AND k.expires_at <= clock.now,
       k.used_at IS NULL OR k.used_at <= clock.now - %(stale)s::bigint * interval '1 microsecond'
FROM   tickwork.api_keys k CROSS JOIN (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock

-- :api_key_of_id
-- include api_key_columns
WHERE k.id = %(id)s

-- :api_keys_by_age
-- include api_key_columns
ORDER BY k.created_at DESC, k.id

-- :use_api_key
UPDATE tickwork.api_keys SET used_at = clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  id = %(id)s AND (used_at IS NULL OR used_at <= clock.now - %(stale)s::bigint * interval '1 microsecond')

-- :revoke_api_key
UPDATE tickwork.api_keys SET revoked_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  id = %(id)s AND revoked_at IS NULL
RETURNING id

-- :put_user
INSERT INTO tickwork.users (name, role, password, created_at, changed_at)
SELECT %(name)s, %(role)s, %(password)s, clock.now, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT DO NOTHING
RETURNING name

-- :get_user
SELECT name, role, password, created_at, changed_at FROM tickwork.users WHERE name = %(name)s

-- :users
SELECT name, role, password, created_at, changed_at FROM tickwork.users ORDER BY name

-- :change_user
UPDATE tickwork.users
SET    role = coalesce(%(role)s::text, role), password = coalesce(%(password)s::text, password),
       changed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  name = %(name)s
RETURNING name

-- :remove_user
DELETE FROM tickwork.users WHERE name = %(name)s RETURNING name

-- :end_sessions_of_user
DELETE FROM tickwork.sessions WHERE kind = 'user' AND subject = %(name)s

-- :has_access
SELECT EXISTS (SELECT FROM tickwork.users)
    OR EXISTS (SELECT FROM tickwork.api_keys
               WHERE revoked_at IS NULL
               AND   (expires_at IS NULL OR expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())))

-- :put_session
-- Removing a user or changing their password waits for this lock, and then ends this session as well.
WITH owner AS (
    SELECT name FROM tickwork.users WHERE name = %(subject)s::text AND password = %(password)s::text FOR SHARE
)
INSERT INTO tickwork.sessions (digest, kind, subject, address, agent, created_at, used_at, expires_at)
SELECT %(digest)s, %(kind)s::text, %(subject)s::text, %(address)s, %(agent)s, clock.now, clock.now,
       clock.now + %(lasts)s::bigint * interval '1 microsecond'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  %(kind)s::text <> 'user' OR EXISTS (SELECT FROM owner)
RETURNING digest

-- :get_session
SELECT s.kind, s.subject, u.role, k.name, k.scopes, s.expires_at,
       s.used_at <= clock.now - %(stale)s::bigint * interval '1 microsecond'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN tickwork.sessions s
LEFT   JOIN tickwork.users u ON s.kind = 'user' AND u.name = s.subject
LEFT   JOIN tickwork.api_keys k ON s.kind = 'key' AND k.id = s.subject AND k.revoked_at IS NULL
                               AND (k.expires_at IS NULL OR k.expires_at > clock.now)
WHERE  s.digest = %(digest)s AND s.expires_at > clock.now
  AND  s.used_at > clock.now - %(idle)s::bigint * interval '1 microsecond'
  AND  (s.kind = 'token' OR u.name IS NOT NULL OR k.id IS NOT NULL)

-- :open_sessions
SELECT s.digest, s.kind, s.subject, k.name, s.address, s.agent, s.created_at, s.used_at, s.expires_at
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN tickwork.sessions s
LEFT   JOIN tickwork.users u ON s.kind = 'user' AND u.name = s.subject
LEFT   JOIN tickwork.api_keys k ON s.kind = 'key' AND k.id = s.subject AND k.revoked_at IS NULL
                               AND (k.expires_at IS NULL OR k.expires_at > clock.now)
WHERE  s.expires_at > clock.now AND s.used_at > clock.now - %(idle)s::bigint * interval '1 microsecond'
  AND  (s.kind = 'token' OR u.name IS NOT NULL OR k.id IS NOT NULL)
  AND  (%(kind)s::text IS NULL OR (s.kind = %(kind)s::text AND s.subject = %(subject)s::text))
ORDER  BY s.used_at DESC, s.digest LIMIT %(limit)s::bigint

-- :use_session
UPDATE tickwork.sessions SET used_at = clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  digest = %(digest)s AND used_at <= clock.now - %(stale)s::bigint * interval '1 microsecond'

-- :end_session
DELETE FROM tickwork.sessions WHERE digest = %(digest)s RETURNING digest

-- :know_logins
-- Rows to lock, so that concurrent logins of one name or address count each other.
INSERT INTO tickwork.logins (subject, failures, tried_at, blocked_until)
SELECT s.value, 0, clock.now, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN json_array_elements_text(%(subjects)s::json) s
ORDER  BY s.value
ON CONFLICT DO NOTHING

-- :lock_logins
SELECT subject FROM tickwork.logins
WHERE  subject IN (SELECT value FROM json_array_elements_text(%(subjects)s::json)) ORDER BY subject FOR UPDATE

-- :tried_logins
SELECT l.subject,
       CASE WHEN l.tried_at <= clock.now - %(forgotten)s::bigint * interval '1 microsecond' THEN 0 ELSE l.failures END,
       greatest(0, extract(epoch FROM l.blocked_until - clock.now))::double precision
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN tickwork.logins l
WHERE  l.subject IN (SELECT value FROM json_array_elements_text(%(subjects)s::json))

-- :put_logins
UPDATE tickwork.logins l
SET    failures = g.failures, tried_at = clock.now, blocked_until = clock.now + g.pause_s * interval '1 second'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN json_to_recordset(%(counted)s::json) AS g (subject text, failures integer, pause_s double precision)
WHERE  l.subject = g.subject

-- :clear_logins
DELETE FROM tickwork.logins WHERE subject IN (SELECT value FROM json_array_elements_text(%(subjects)s::json))

-- :return_logins
UPDATE tickwork.logins SET failures = greatest(0, failures - 1), blocked_until = tried_at
WHERE  subject IN (SELECT value FROM json_array_elements_text(%(subjects)s::json))

-- :knows_login
SELECT EXISTS (
    SELECT FROM tickwork.known_logins
    WHERE  subject = %(subject)s AND known_until > coalesce(%(now)s::timestamptz, clock_timestamp()))

-- :remember_login
INSERT INTO tickwork.known_logins (subject, known_until)
VALUES (%(subject)s,
        coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lasts)s::bigint * interval '1 microsecond')
ON CONFLICT (subject) DO UPDATE SET known_until = excluded.known_until

-- :hold_keys
-- Each key takes one of 256 locks, because a server has few locks; in one order, to avoid deadlocks.
SELECT count(pg_advisory_xact_lock(held.lock)) FROM (
    SELECT DISTINCT hashtextextended('tickwork keys of jobs ' || (hashtextextended(one, 0) & 255), 0) AS lock
    FROM unnest(%(keys)s::text::text[]) AS one ORDER BY lock
) held

-- :record_change
INSERT INTO tickwork.audit (at, who, action, target, before, after, request_id, address)
VALUES (coalesce(%(now)s::timestamptz, clock_timestamp()), %(who)s, %(action)s, %(target)s, %(before)s, %(after)s,
        %(request_id)s, %(address)s)

-- :changes
SELECT id, at, who, action, target, before, after, request_id, address FROM tickwork.audit
WHERE  id < %(below)s::bigint {filters}
ORDER  BY id DESC LIMIT %(limit)s::bigint

-- :begin_answer
-- No row: the request was answered, or is in flight.
INSERT INTO tickwork.answers AS a (who, key, digest, first_at, began_at)
SELECT %(who)s, %(key)s, %(digest)s, clock.now, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (who, key) DO UPDATE SET
    digest = excluded.digest, began_at = excluded.began_at, status = NULL, headers = NULL, body = NULL,
    first_at = CASE WHEN a.first_at <= excluded.began_at - %(kept)s::bigint * interval '1 microsecond'
                    THEN excluded.first_at ELSE a.first_at END
WHERE  a.first_at <= excluded.began_at - %(kept)s::bigint * interval '1 microsecond'
   OR  (a.status IS NULL AND a.began_at <= excluded.began_at - %(given_up)s::bigint * interval '1 microsecond'
        AND a.digest = excluded.digest)
RETURNING first_at, began_at

-- :get_answer
SELECT digest, status, headers, body FROM tickwork.answers WHERE who = %(who)s AND key = %(key)s

-- :keep_answer
UPDATE tickwork.answers SET status = %(status)s::integer, headers = %(headers)s, body = %(body)s
WHERE  who = %(who)s AND key = %(key)s AND began_at = %(began_at)s::timestamptz AND status IS NULL

-- :drop_answer
DELETE FROM tickwork.answers
WHERE  who = %(who)s AND key = %(key)s AND began_at = %(began_at)s::timestamptz AND status IS NULL

-- :release_answer
UPDATE tickwork.answers SET began_at = 'epoch'
WHERE  who = %(who)s AND key = %(key)s AND began_at = %(began_at)s::timestamptz AND status IS NULL

-- :store_id
SELECT id FROM tickwork.store

-- :lock_store_id
LOCK TABLE tickwork.store IN EXCLUSIVE MODE

-- :put_store_id
INSERT INTO tickwork.store (id) VALUES (%(id)s)

-- :put_secret
INSERT INTO tickwork.secrets (name, sealed, uses, set_at, set_by)
VALUES (%(name)s, %(sealed)s, %(uses)s, coalesce(%(now)s::timestamptz, clock_timestamp()), %(by)s)
ON CONFLICT (name) DO UPDATE SET
    sealed = excluded.sealed, uses = excluded.uses, set_at = excluded.set_at, set_by = excluded.set_by

-- :get_secret
SELECT sealed, uses FROM tickwork.secrets WHERE name = %(name)s

-- :secrets
SELECT name, uses, set_at, set_by FROM tickwork.secrets ORDER BY name

-- :delete_secret
DELETE FROM tickwork.secrets WHERE name = %(name)s RETURNING name

-- :prune_access
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
s AS (
    DELETE FROM tickwork.sessions WHERE digest IN (
        SELECT digest FROM tickwork.sessions, clock WHERE expires_at <= clock.now LIMIT %(limit)s::bigint)
    RETURNING 1
),
l AS (
    DELETE FROM tickwork.logins WHERE subject IN (
        SELECT subject FROM tickwork.logins, clock
        WHERE  tried_at <= clock.now - %(forgotten)s::bigint * interval '1 microsecond' LIMIT %(limit)s::bigint)
    RETURNING 1
),
k AS (
    DELETE FROM tickwork.known_logins WHERE subject IN (
        SELECT subject FROM tickwork.known_logins, clock WHERE known_until <= clock.now LIMIT %(limit)s::bigint)
    RETURNING 1
),
a AS (
    DELETE FROM tickwork.answers WHERE (who, key) IN (
        SELECT who, key FROM tickwork.answers, clock
        WHERE  first_at <= clock.now - %(kept)s::bigint * interval '1 microsecond' LIMIT %(limit)s::bigint)
    RETURNING 1
)
SELECT greatest((SELECT count(*) FROM s), (SELECT count(*) FROM l), (SELECT count(*) FROM k), (SELECT count(*) FROM a))
