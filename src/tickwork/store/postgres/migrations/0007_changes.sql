-- Jobs that were tried before and wait to be tried again. No other job pays for it.
CREATE INDEX queue_retrying ON tickwork.queue (job_id) WHERE failures > 0;
