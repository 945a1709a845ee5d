-- What the stream of changes and the list of retrying jobs are read by. Jobs that succeed at once do not pay for either.

-- Tries that were followed by another one, in the order in which they ended.
CREATE INDEX tickwork_attempts_end ON tickwork_attempts (ended_at);

CREATE INDEX tickwork_queue_retrying ON tickwork_queue (job_id) WHERE failures > 0;
