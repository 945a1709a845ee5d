"""The list of benchmark rows, with our and the raw measurement of each. All use the default configuration."""

from bench.rows import (
    dags,
    drain,
    enqueue,
    held,
    http,
    idle_slots,
    limited,
    others,
    presence,
    promptness,
    schedules,
    tenants,
)
from bench.rows.base import FULL, QUICK, Block, Measure, Row, Sample, Sizes, each_time_anew

__all__ = ["FULL", "QUICK", "ROWS", "Block", "Measure", "Row", "Sample", "Sizes"]

_raw_drain = each_time_anew(drain.raw_drain)


def _on_both(**figures: float) -> dict[str, dict[str, float]]:
    return {"sqlite": figures, "postgres": figures}


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
        "limited",
        "Drain, 10 at once of each of 1,000 keys",
        "jobs/s",
        limited.drain_beside_plain("noop_few", limited.in_turn),
    ),
    Row(
        "limited-single",
        "Drain, 1 at once of each of 1,000 keys",
        "jobs/s",
        limited.drain_beside_plain("noop_single", limited.in_turn),
    ),
    Row(
        "limited-row",
        "Drain, 1 at once, the jobs of a key in a row",
        "jobs/s",
        limited.drain_beside_plain("noop_single", limited.in_a_row),
    ),
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
    Row("held-limit", "Start latency, many held by a limit", "ms", held.behind(held.by_limit)),
    Row("held-gate", "Start latency, many held by a gate", "ms", held.behind(held.by_gate)),
    Row("others", "Start latency, many of another task", "ms", each_time_anew(others.beside_others)),
    Row("tenants", "Start latency beside a large tenant", "ms", each_time_anew(tenants.beside_large)),
    Row("cold", "Cold start to the first job done", "s", each_time_anew(presence.cold_start)),
    Row("idle", "Idle worker", "MB, %", each_time_anew(presence.idle)),
    Row(
        "idle-slots",
        "Idle slots beside due jobs of 50 ms",
        "%",
        each_time_anew(idle_slots.idle_slots),
        targets=_on_both(plain_percent=3, keyed_percent=3, sequence_percent=3, tenants_percent=3),
    ),
    Row("herd", "Many schedules due in the same second", "s", each_time_anew(schedules.herd)),
    Row("ticks", "Lateness of schedules, idle", "ms", each_time_anew(schedules.tick_lateness)),
    Row("idle-schedules", "Idle worker, many schedules", "MB, %", each_time_anew(schedules.idle_schedules)),
    Row(
        "dag-chain",
        "Run of 100 steps one after another",
        "s",
        each_time_anew(dags.chain),
        targets={"sqlite": {"ended_s": 0.4}, "postgres": {"ended_s": 0.6}},
    ),
    Row(
        "dag-fan",
        "Run of 1, 1,000 and 1 steps",
        "s",
        each_time_anew(dags.fan(lambda sizes: sizes.dag_fan)),
        targets=_on_both(ended_s=0.8),
    ),
    Row(
        "dag-fan-large",
        "Run of 1, 10,000 and 1 steps",
        "s",
        each_time_anew(dags.fan(lambda sizes: sizes.dag_fan_large)),
        targets=_on_both(ended_s=8.0),
    ),
    Row("dag-runs", "Steps of 10,000 runs; memory before, after", "jobs/s", each_time_anew(dags.many_runs)),
    Row(
        "dag-trace",
        "Trace and check 1,000 and 10,000 steps",
        "ms",
        each_time_anew(dags.traced),
        targets=_on_both(small_ms=100, large_ms=1000),
    ),
    Row(
        "http-enqueue",
        "500 enqueues/s over HTTP, a worker drains",
        "ms",
        each_time_anew(http.enqueues),
        targets={"sqlite": {"p99": 50}},
    ),
    Row(
        "http-idle",
        "1,000 idle workers that poll over HTTP",
        "MB, %",
        each_time_anew(http.idle_polls),
        targets={"sqlite": {"cpu_percent": 10}},
    ),
)
