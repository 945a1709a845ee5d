"""The rows of the table: what is measured, ours and raw. All with one configuration, the shipped defaults."""

from bench.rows import drain, enqueue, presence, promptness, schedules
from bench.rows.base import FULL, QUICK, Block, Measure, Row, Sample, Sizes, each_time_anew

__all__ = ["FULL", "QUICK", "ROWS", "Block", "Measure", "Row", "Sample", "Sizes"]

_raw_drain = each_time_anew(drain.raw_drain)

ROWS = (
    Row(
        "enqueue",
        "Enqueue one by one",
        "jobs/s",
        each_time_anew(enqueue.one_by_one),
        each_time_anew(enqueue.raw_one_by_one),
    ),
    Row(
        "bulk",
        "Enqueue in bulk, ids returned",
        "jobs/s",
        each_time_anew(enqueue.in_bulk),
        each_time_anew(enqueue.raw_in_bulk),
    ),
    Row("drain", "Drain, plain handlers", "jobs/s", each_time_anew(drain.drain_of("noop")), _raw_drain),
    Row("drain-async", "Drain, async handlers", "jobs/s", each_time_anew(drain.drain_of("noop_async")), _raw_drain),
    Row("drain-batch", "Drain, batches of 100", "jobs/s", each_time_anew(drain.drain_of("noop_batch")), _raw_drain),
    Row("backlog", "Drain, many queued", "jobs/s", drain.backlog, drain.raw_backlog),
    Row(
        "latency",
        "Start latency, idle",
        "ms",
        each_time_anew(promptness.start_latency),
        each_time_anew(promptness.raw_latency),
        raw_once=True,
    ),
    Row(
        "timers",
        "Lateness of timers",
        "ms",
        each_time_anew(promptness.timer_lateness),
        each_time_anew(promptness.raw_lateness),
        raw_once=True,
    ),
    Row("steady", "Start latency, steady load", "ms", each_time_anew(promptness.steady)),
    Row("cold", "Cold start to the first job done", "s", each_time_anew(presence.cold_start)),
    Row("idle", "Idle worker", "MB, %", each_time_anew(presence.idle)),
    Row("herd", "Many schedules due in the same second", "s", each_time_anew(schedules.herd)),
    Row("ticks", "Lateness of schedules, idle", "ms", each_time_anew(schedules.tick_lateness)),
    Row("idle-schedules", "Idle worker, many schedules", "MB, %", each_time_anew(schedules.idle_schedules)),
)
