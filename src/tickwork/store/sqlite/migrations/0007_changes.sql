-- Jobs that were tried before and wait to be retried. Other jobs are not in this index.
CREATE INDEX tickwork_queue_retrying ON tickwork_queue (job_id) WHERE failures > 0;
