-- What the stream of changes and the list of retrying jobs are read by. Jobs that succeed at once do not pay for either.

-- Tries that were followed by another one, in the order in which they ended.
CREATE INDEX attempts_end ON tickwork.attempts (ended_at);

CREATE INDEX queue_retrying ON tickwork.queue (job_id) WHERE failures > 0;
