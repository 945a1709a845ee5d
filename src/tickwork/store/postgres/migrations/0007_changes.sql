-- What the list of retrying jobs is read by. Jobs that succeed at once do not pay for it.

CREATE INDEX queue_retrying ON tickwork.queue (job_id) WHERE failures > 0;
