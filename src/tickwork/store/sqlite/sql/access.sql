-- Access: API keys, users, sessions, logins, the audit log, kept answers and secrets.

-- :put_api_key
INSERT INTO tickwork_api_keys (id, name, digest, scopes, created_at, created_by, expires_at)
VALUES (:id, :name, :digest, :scopes, :now, :by, :now + :lasts)
ON CONFLICT DO NOTHING
RETURNING id

-- :api_key_columns
SELECT id, name, digest, scopes, created_at, created_by, expires_at, used_at, revoked_at,
       expires_at IS NOT NULL AND expires_at <= :now, used_at IS NULL OR used_at <= :now - :stale
FROM   tickwork_api_keys

-- :api_key_of_id
WHERE id = :id

-- :api_keys_by_age
ORDER BY created_at DESC, id

-- :use_api_key
UPDATE tickwork_api_keys SET used_at = :now WHERE id = :id AND (used_at IS NULL OR used_at <= :now - :stale)

-- :revoke_api_key
UPDATE tickwork_api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id

-- :put_user
INSERT INTO tickwork_users (name, role, password, created_at, changed_at) VALUES (:name, :role, :password, :now, :now)
ON CONFLICT DO NOTHING
RETURNING name

-- :get_user
SELECT name, role, password, created_at, changed_at FROM tickwork_users WHERE name = ?

-- :users
SELECT name, role, password, created_at, changed_at FROM tickwork_users ORDER BY name

-- :change_user
UPDATE tickwork_users SET role = coalesce(:role, role), password = coalesce(:password, password), changed_at = :now
WHERE  name = :name
RETURNING name

-- :remove_user
DELETE FROM tickwork_users WHERE name = ? RETURNING name

-- :end_sessions_of_user
DELETE FROM tickwork_sessions WHERE kind = 'user' AND subject = ?

-- :has_access
SELECT EXISTS (SELECT 1 FROM tickwork_users)
    OR EXISTS (SELECT 1 FROM tickwork_api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now))

-- :put_session
INSERT INTO tickwork_sessions (digest, kind, subject, address, agent, created_at, used_at, expires_at)
SELECT :digest, :kind, :subject, :address, :agent, :now, :now, :now + :lasts
WHERE  :kind <> 'user' OR EXISTS (SELECT 1 FROM tickwork_users WHERE name = :subject AND password = :password)
RETURNING digest

-- :get_session
SELECT s.kind, s.subject, u.role, k.name, k.scopes, s.expires_at, s.used_at <= :now - :stale
FROM   tickwork_sessions s
LEFT   JOIN tickwork_users u ON s.kind = 'user' AND u.name = s.subject
LEFT   JOIN tickwork_api_keys k ON s.kind = 'key' AND k.id = s.subject AND k.revoked_at IS NULL
                               AND (k.expires_at IS NULL OR k.expires_at > :now)
WHERE  s.digest = :digest AND s.expires_at > :now AND s.used_at > :now - :idle
  AND  (s.kind = 'token' OR u.name IS NOT NULL OR k.id IS NOT NULL)

-- :open_sessions
SELECT s.digest, s.kind, s.subject, k.name, s.address, s.agent, s.created_at, s.used_at, s.expires_at
FROM   tickwork_sessions s
LEFT   JOIN tickwork_users u ON s.kind = 'user' AND u.name = s.subject
LEFT   JOIN tickwork_api_keys k ON s.kind = 'key' AND k.id = s.subject AND k.revoked_at IS NULL
                               AND (k.expires_at IS NULL OR k.expires_at > :now)
WHERE  s.expires_at > :now AND s.used_at > :now - :idle
  AND  (s.kind = 'token' OR u.name IS NOT NULL OR k.id IS NOT NULL)
  AND  (:kind IS NULL OR (s.kind = :kind AND s.subject = :subject))
ORDER  BY s.used_at DESC, s.digest LIMIT :limit

-- :use_session
UPDATE tickwork_sessions SET used_at = :now WHERE digest = :digest AND used_at <= :now - :stale

-- :end_session
DELETE FROM tickwork_sessions WHERE digest = ? RETURNING digest

-- :tried_logins
SELECT subject, CASE WHEN tried_at <= :now - :forgotten THEN 0 ELSE failures END, max(0, blocked_until - :now) / 1e6
FROM   tickwork_logins WHERE subject IN (SELECT value FROM json_each(:subjects))

-- :put_login
INSERT INTO tickwork_logins (subject, failures, tried_at, blocked_until) VALUES (:subject, :failures, :now, :now + :pause)
ON CONFLICT (subject) DO UPDATE SET failures = excluded.failures, tried_at = excluded.tried_at, blocked_until = excluded.blocked_until

-- :clear_logins
DELETE FROM tickwork_logins WHERE subject IN (SELECT value FROM json_each(?))

-- :return_logins
UPDATE tickwork_logins SET failures = max(0, failures - 1), blocked_until = tried_at
WHERE  subject IN (SELECT value FROM json_each(?))

-- :knows_login
SELECT EXISTS (SELECT 1 FROM tickwork_known_logins WHERE subject = :subject AND known_until > :now)

-- :remember_login
INSERT INTO tickwork_known_logins (subject, known_until) VALUES (:subject, :now + :lasts)
ON CONFLICT (subject) DO UPDATE SET known_until = excluded.known_until

-- :record_change
INSERT INTO tickwork_audit (at, who, action, target, before, after, request_id, address)
VALUES (:now, :who, :action, :target, :before, :after, :request_id, :address)

-- :changes
SELECT id, at, who, action, target, before, after, request_id, address FROM tickwork_audit
WHERE  id < :below {filters}
ORDER  BY id DESC LIMIT :limit

-- :begin_answer
-- No row: the request was answered, or is in flight.
INSERT INTO tickwork_answers (who, key, digest, first_at, began_at) VALUES (:who, :key, :digest, :now, :now)
ON CONFLICT (who, key) DO UPDATE SET
    digest = excluded.digest, began_at = excluded.began_at, status = NULL, headers = NULL, body = NULL,
    first_at = CASE WHEN first_at <= :now - :kept THEN excluded.first_at ELSE first_at END
WHERE  first_at <= :now - :kept OR (status IS NULL AND began_at <= :now - :given_up AND digest = excluded.digest)
RETURNING first_at, began_at

-- :get_answer
SELECT digest, status, headers, body FROM tickwork_answers WHERE who = :who AND key = :key

-- :keep_answer
UPDATE tickwork_answers SET status = :status, headers = :headers, body = :body
WHERE  who = :who AND key = :key AND began_at = :began_at AND status IS NULL

-- :drop_answer
DELETE FROM tickwork_answers WHERE who = :who AND key = :key AND began_at = :began_at AND status IS NULL

-- :release_answer
UPDATE tickwork_answers SET began_at = 0 WHERE who = :who AND key = :key AND began_at = :began_at AND status IS NULL

-- :store_id
SELECT id FROM tickwork_store

-- :put_store_id
INSERT INTO tickwork_store (id) VALUES (?)

-- :put_secret
INSERT INTO tickwork_secrets (name, sealed, uses, set_at, set_by) VALUES (:name, :sealed, :uses, :now, :by)
ON CONFLICT (name) DO UPDATE SET
    sealed = excluded.sealed, uses = excluded.uses, set_at = excluded.set_at, set_by = excluded.set_by

-- :get_secret
SELECT sealed, uses FROM tickwork_secrets WHERE name = ?

-- :secrets
SELECT name, uses, set_at, set_by FROM tickwork_secrets ORDER BY name

-- :delete_secret
DELETE FROM tickwork_secrets WHERE name = ? RETURNING name

-- :prune_sessions
DELETE FROM tickwork_sessions
WHERE  digest IN (SELECT digest FROM tickwork_sessions WHERE expires_at <= :now LIMIT :limit) RETURNING 1

-- :prune_logins
DELETE FROM tickwork_logins
WHERE  subject IN (SELECT subject FROM tickwork_logins WHERE tried_at <= :now - :forgotten LIMIT :limit) RETURNING 1

-- :prune_known_logins
DELETE FROM tickwork_known_logins
WHERE  subject IN (SELECT subject FROM tickwork_known_logins WHERE known_until <= :now LIMIT :limit) RETURNING 1

-- :prune_answers
DELETE FROM tickwork_answers
WHERE  (who, key) IN (SELECT who, key FROM tickwork_answers WHERE first_at <= :now - :kept LIMIT :limit) RETURNING 1

-- :prune_audit
DELETE FROM tickwork_audit WHERE id IN (SELECT id FROM tickwork_audit WHERE at <= :now - :audited LIMIT :limit) RETURNING 1
