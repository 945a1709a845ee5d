"""A Grafana dashboard and Prometheus alert rules, generated from the table of metrics.

`python -m tickwork.observe.dashboard FOLDER` writes both; a test keeps the files in deploy/ equal to them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tickwork.observe import metrics_table
from tickwork.observe.metrics_table import Metric


class Panel(NamedTuple):
    """A chart: its Prometheus queries, each with the legend of its lines, and the unit of its axis."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _rate(metric: Metric, by: str) -> str:
    """Return the query for the rate of a counter of the whole store.

    The counter is equal on every server; the largest value is from the server that started first.
    """
    return f"sum by ({by}) (max without (instance, pod) (rate({metric.full}[$__rate_interval])))"


def _own_rate(metric: Metric, by: str) -> str:
    """Return the query for the rate of a counter that each process has of its own, summed over the processes."""
    return f"sum by ({by}) (rate({metric.full}[$__rate_interval]))"


def _quantile(metric: Metric, share: float, by: str = "") -> str:
    labels = ", ".join(["le", *([by] if by else [])])
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric.full}_bucket[$__rate_interval])))"


def _gauge(metric: Metric, by: str) -> str:
    return f"max by ({by}) ({metric.full})" if by else f"max({metric.full})"


PANELS = (
    Panel("Jobs finished", ((_rate(metrics_table.JOBS_FINISHED, "outcome"), "{{outcome}}"),), "ops"),
    Panel("Jobs enqueued", ((_rate(metrics_table.JOBS_ENQUEUED, "queue"), "{{queue}}"),), "ops"),
    Panel("In the queues", ((_gauge(metrics_table.QUEUE_JOBS, "queue, state"), "{{queue}} {{state}}"),)),
    Panel("Oldest due job", ((_gauge(metrics_table.QUEUE_OLDEST, "queue"), "{{queue}}"),), "s"),
    Panel(
        "Wait from due to start",
        tuple((_quantile(metrics_table.WAIT, q), f"p{q * 100:g}") for q in (0.5, 0.95, 0.99)),
        "s",
    ),
    Panel("Run time, p95", ((_quantile(metrics_table.RUN, 0.95, "task"), "{{task}}"),), "s"),
    Panel("Attempts by outcome", ((_own_rate(metrics_table.ATTEMPTS, "outcome"), "{{outcome}}"),), "ops"),
    Panel(
        "Slots", ((_gauge(metrics_table.WORKER_SLOTS, ""), "slots"), (_gauge(metrics_table.WORKER_BUSY, ""), "busy"))
    ),
    Panel("Workers", ((_gauge(metrics_table.WORKERS, "state"), "{{state}}"),)),
    Panel("Workers wanted", ((_gauge(metrics_table.QUEUE_WANTED, "queue"), "{{queue}}"),)),
    Panel("Due jobs that no worker can run", ((_gauge(metrics_table.QUEUE_UNPLACED, "queue"), "{{queue}}"),)),
    Panel("Lost leases", ((_own_rate(metrics_table.LEASES_EXPIRED, "job"), "taken back"),), "ops"),
    Panel("PostgreSQL connections by process", ((f"{metrics_table.CONNECTIONS.full}", "{{instance}}"),)),
    Panel("Refused connections", ((_own_rate(metrics_table.CONNECTIONS_REFUSED, "job"), "refused"),), "ops"),
    Panel("Runs of dags", ((_rate(metrics_table.RUNS_FINISHED, "dag, outcome"), "{{dag}} {{outcome}}"),), "ops"),
    Panel("Occurrences of schedules", ((_rate(metrics_table.SCHEDULE_FIRES, "action"), "{{action}}"),), "ops"),
    Panel("Schedules are late by", ((_gauge(metrics_table.SCHEDULE_LAG, ""), "lag"),), "s"),
    Panel("The canary starts late by", ((_gauge(metrics_table.CANARY_DELAY, ""), "delay"),), "s"),
    Panel("Dead letters", ((_gauge(metrics_table.DEAD_JOBS, ""), "jobs"),)),
    Panel(
        "Requests",
        (
            (
                _own_rate(metrics_table.HTTP, "code").replace(
                    metrics_table.HTTP.full, f"{metrics_table.HTTP.full}_count"
                ),
                "{{code}}",
            ),
        ),
        "ops",
    ),
    Panel("Request time, p99", ((_quantile(metrics_table.HTTP, 0.99, "route"), "{{route}}"),), "s"),
    Panel("Calls of the database, p99", ((_quantile(metrics_table.DB, 0.99, "op"), "{{op}}"),), "s"),
    Panel("Paused queues", ((_gauge(metrics_table.QUEUE_PAUSED, "queue"), "{{queue}}"),)),
    Panel("Heartbeats of workers are old", ((_gauge(metrics_table.HEARTBEAT_AGE, "instance"), "{{instance}}"),), "s"),
)


class Alert(NamedTuple):
    """An alert rule: the expression that must hold, for how long, its severity, and the message."""

    name: str
    expression: str
    lasts: str
    severity: str
    says: str


ALERTS = (
    Alert(
        "TickworkQueueIsLate",
        f"max by (queue) ({metrics_table.QUEUE_OLDEST.full}) > 300 "
        f"unless on (queue) max by (queue) ({metrics_table.QUEUE_PAUSED.full}) == 1",
        "5m",
        "page",
        "Queue {{ $labels.queue }}: its oldest due job waits for {{ $value | humanizeDuration }}: tickwork queues",
    ),
    Alert(
        "TickworkNoWorkers",
        f'absent({metrics_table.WORKERS.full}{{state="running"}}) == 1 '
        f'or max({metrics_table.WORKERS.full}{{state="running"}}) == 0',
        "2m",
        "page",
        "No worker runs: tickwork workers list",
    ),
    Alert(
        "TickworkJobsFail",
        f'sum(max without (instance, pod) (rate({metrics_table.JOBS_FINISHED.full}{{outcome="failed"}}[10m]))) '
        f"/ sum(max without (instance, pod) (rate({metrics_table.JOBS_FINISHED.full}[10m]))) > 0.05",
        "10m",
        "ticket",
        "{{ $value | humanizePercentage }} of the jobs fail for good: tickwork dead list",
    ),
    Alert(
        "TickworkSchedulesAreLate",
        f"max({metrics_table.SCHEDULE_LAG.full}) > 60",
        "2m",
        "page",
        "A schedule is {{ $value | humanizeDuration }} late: does any worker or server run its services?",
    ),
    Alert(
        "TickworkOccurrencesMissed",
        f'sum(max without (instance, pod) (increase({metrics_table.SCHEDULE_FIRES.full}{{action="pass"}}[15m]))) > 0',
        "0m",
        "ticket",
        "{{ $value }} occurrences of schedules were given up: tickwork schedules list",
    ),
    Alert(
        "TickworkWorkersFallSilent",
        f"sum(increase({metrics_table.LEASES_EXPIRED.full}[15m])) > 10",
        "0m",
        "ticket",
        "{{ $value }} attempts were taken back from workers that fell silent: tickwork workers list",
    ),
    Alert(
        "TickworkConnectionsRefused",
        f"sum(increase({metrics_table.CONNECTIONS_REFUSED.full}[15m])) > 0",
        "0m",
        "ticket",
        "PostgreSQL refused {{ $value }} connections: raise max_connections, or lower TICKWORK_POOL_SIZE",
    ),
    Alert(
        "TickworkDatabaseIsSlow",
        f"histogram_quantile(0.99, sum by (le) (rate({metrics_table.DB.full}_bucket[5m]))) > 1",
        "10m",
        "ticket",
        "One call of the database in a hundred takes {{ $value | humanizeDuration }}: tickwork doctor",
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard, for import into Grafana."""
    return {
        "title": "Tickwork",
        "uid": "tickwork",
        "schemaVersion": 39,
        "tags": ["tickwork"],
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"h": 8, "w": 8, "x": number % 3 * 8, "y": number // 3 * 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def alerts() -> dict[str, Any]:
    """Return the alert rules as a Prometheus rule file (JSON is valid YAML)."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.says},
        }
        for alert in ALERTS
    ]
    return {"groups": [{"name": "tickwork", "rules": rules}]}


def files() -> dict[str, str]:
    """Return the generated files by name."""
    return {
        "grafana-dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        "prometheus-alerts.yaml": json.dumps(alerts(), indent=2) + "\n",
    }


if __name__ == "__main__":
    for name, text in files().items():
        Path(sys.argv[1], name).write_text(text)
