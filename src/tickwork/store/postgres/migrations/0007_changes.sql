-- Jobs that were tried before and wait to be retried. Other jobs are not in this index.
CREATE INDEX queue_retrying ON tickwork.queue (job_id) WHERE failures > 0;
