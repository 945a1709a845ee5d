-- Counts for metrics, besides the statistics.

-- :fired_counts
SELECT action, count(*) FROM tickwork.fires WHERE fired_at > %(since)s AND fired_at <= %(until)s GROUP BY action

-- :oldest_wake
SELECT min(wake_at) FROM tickwork.schedules WHERE wake_at IS NOT NULL

-- :dead_count
SELECT count(*)
FROM   (SELECT 1 FROM tickwork.finished WHERE state = 'failed' AND state <> 'succeeded' AND discarded_at IS NULL LIMIT %(most)s) f
