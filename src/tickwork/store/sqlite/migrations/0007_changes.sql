-- What the list of retrying jobs is read by. Jobs that succeed at once do not pay for it.

CREATE INDEX tickwork_queue_retrying ON tickwork_queue (job_id) WHERE failures > 0;
