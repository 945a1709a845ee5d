-- Counts for metrics, besides the statistics.

-- :fired_counts
SELECT action, count(*) FROM tickwork_fires WHERE fired_at > :since AND fired_at <= :until GROUP BY action

-- :oldest_wake
SELECT min(wake_at) FROM tickwork_schedules WHERE wake_at IS NOT NULL

-- :dead_count
SELECT count(*) FROM (SELECT 1 FROM tickwork_finished WHERE state = 'failed' AND state <> 'succeeded' AND discarded_at IS NULL LIMIT :most)
