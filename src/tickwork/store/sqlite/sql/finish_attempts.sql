-- finish_attempts: close attempts whose claim still holds the job. An attempt missing from the result was reclaimed.
-- `claims` maps each job to the claim of its attempt: {"job id": claim}.

-- :current_attempts
-- Read, and then deleted: DELETE ... RETURNING for a batch takes 20 times as long for a few rows.
SELECT r.job_id, r.attempt, r.queue, r.priority, r.task, r.run_at, r.claimed_at, r.worker, r.keyed, r.expires_at, r.cancel_at,
       r.progress, r.progress_note, r.claim
FROM   json_each(:claims) AS a CROSS JOIN tickwork_running AS r ON r.job_id = a.key AND r.claim = a.value

-- :expired_current_attempts
-- The reaper: only while the worker's lease has expired.
SELECT r.job_id, r.attempt, r.queue, r.priority, r.task, r.run_at, r.claimed_at, r.worker, r.keyed, r.expires_at, r.cancel_at,
       r.progress, r.progress_note, r.claim
FROM   json_each(:claims) AS a CROSS JOIN tickwork_running AS r ON r.job_id = a.key AND r.claim = a.value
WHERE  EXISTS (SELECT 1 FROM tickwork_workers w WHERE w.id = r.worker AND w.lease_until < :now)

-- :leave_running
DELETE FROM tickwork_running WHERE job_id = ?

-- :enter_finished
INSERT INTO tickwork_finished (job_id, state, ended_at, run_at, attempt, attempt_state, worker, started_at, failures, crashes, result, error,
       progress, progress_note, losses)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :enter_queue
INSERT INTO tickwork_queue (queue, priority, run_at, job_id, task, attempt, failures, crashes, alone, keyed, expires_at, losses)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :enter_attempts
INSERT INTO tickwork_attempts (job_id, attempt, state, worker, started_at, ended_at, error, progress, progress_note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :policy
SELECT policy FROM tickwork_jobs WHERE id = ?

-- :release_key
-- A key that is to stay unique for a while after the end is kept until then.
UPDATE tickwork_keys SET until = :until WHERE job_id = :job_id

-- :free_key
DELETE FROM tickwork_keys WHERE job_id = ?

-- :append_log
INSERT INTO tickwork_logs (job_id, attempt, seq, at, text, shared)
SELECT job_id, attempt, :seq, :at, :text, :shared FROM tickwork_running WHERE job_id = :job_id AND claim = :claim
ON CONFLICT DO NOTHING

-- :begin_alone
-- The handler of a job that runs alone in its worker begins. From here on the loss of the attempt is blamed on the job.
UPDATE tickwork_running SET begun = 1 WHERE job_id = :job_id AND claim = :claim RETURNING job_id

-- :set_progress
UPDATE tickwork_running SET progress = :fraction, progress_note = :note WHERE job_id = :job_id AND claim = :claim

-- :save_state
INSERT INTO tickwork_saved (job_id, state)
SELECT :job_id, :state
WHERE EXISTS (SELECT 1 FROM tickwork_running WHERE job_id = :job_id AND claim = :claim)
ON CONFLICT (job_id) DO UPDATE SET state = excluded.state
RETURNING job_id

-- :saved_state
SELECT state FROM tickwork_saved WHERE job_id = ?
