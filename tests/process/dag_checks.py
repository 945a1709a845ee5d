"""Looks at runs of dags from outside, in plain SQL: what must hold of them after every commit.

Each query finds what is wrong, in one statement and so in one snapshot: it may be asked while workers are at work. Who
waits for whom is told by the test, and not read from what the store keeps. The dags have no approvals.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.process.ledger import Ledger

Parents = Mapping[str, Sequence[str]]

_LIVE = "(SELECT job_id FROM tickwork.queue UNION ALL SELECT job_id FROM tickwork.running)"
_GOING = "('waiting', 'open')"

_WRONG = {
    "a step counts its parents wrongly": """
        WITH edge (child, parent) AS (VALUES {edges}),
        counted AS (
            SELECT c.run, c.step,
                   count(CASE WHEN p.state IN {going} THEN 1 END) AS pending,
                   count(CASE WHEN p.state = 'succeeded' THEN 1 END) AS succeeded,
                   count(CASE WHEN p.state NOT IN {going} AND p.state <> 'succeeded'
                               AND (p.state <> 'skipped' OR p.blocked) THEN 1 END) AS failed,
                   count(CASE WHEN p.state = 'skipped' AND NOT p.blocked THEN 1 END) AS skipped
            FROM   tickwork.steps c
            LEFT   JOIN edge ON edge.child = c.step
            LEFT   JOIN tickwork.steps p ON p.run = c.run AND p.step = edge.parent
            GROUP  BY c.run, c.step)
        SELECT s.run, s.step, s.pending, s.succeeded, s.failed, s.skipped,
               c.pending, c.succeeded, c.failed, c.skipped
        FROM   tickwork.steps s JOIN counted c ON c.run = s.run AND c.step = s.step
        WHERE  s.pending <> c.pending OR s.succeeded <> c.succeeded OR s.failed <> c.failed OR s.skipped <> c.skipped
    """,
    "a step counts its jobs wrongly": """
        SELECT s.run, s.step, s.state, s.total, s.ended, s.bad,
               count(j.id), count(DISTINCT j.idx), count(f.job_id), count(CASE WHEN f.state <> 'succeeded' THEN 1 END)
        FROM   tickwork.steps s
        LEFT   JOIN tickwork.jobs j ON j.run = s.run AND j.step = s.step AND j.idx < s.total
        LEFT   JOIN tickwork.finished f ON f.job_id = j.id
        GROUP  BY s.run, s.step, s.state, s.total, s.ended, s.bad
        HAVING count(j.id) <> s.total OR count(DISTINCT j.idx) <> s.total OR count(f.job_id) <> s.ended
               OR count(CASE WHEN f.state <> 'succeeded' THEN 1 END) <> s.bad
    """,
    "the state of a step does not follow from its jobs and parents": """
        SELECT run, step, state, pending, total, ended, bad FROM tickwork.steps
        WHERE  NOT CASE state
               WHEN 'waiting' THEN pending > 0 AND total = 0
               WHEN 'open' THEN pending = 0 AND ended < total
               WHEN 'skipped' THEN pending = 0 AND total = 0
               WHEN 'succeeded' THEN pending = 0 AND ended = total AND bad = 0
               ELSE pending = 0 AND ended = total AND (bad > 0 OR total = 0) END
    """,
    "a run counts its steps wrongly": """
        SELECT u.id, u.open, u.failed, count(s.step)
        FROM   tickwork.runs u LEFT JOIN tickwork.steps s ON s.run = u.id
        GROUP  BY u.id, u.open, u.failed
        HAVING count(s.step) <> {steps} OR u.open <> count(CASE WHEN s.state IN {going} THEN 1 END)
               OR u.failed <> count(CASE WHEN s.state NOT IN ('waiting', 'open', 'succeeded', 'skipped') THEN 1 END)
    """,
    "the state of a run does not follow from its steps": """
        SELECT u.id, u.open, u.failed, r.worker, q.job_id, f.state
        FROM   tickwork.runs u
        LEFT   JOIN tickwork.running r ON r.job_id = u.id
        LEFT   JOIN tickwork.queue q ON q.job_id = u.id
        LEFT   JOIN tickwork.finished f ON f.job_id = u.id
        WHERE  NOT coalesce(CASE
               WHEN u.open > 0 THEN r.worker = '' AND q.job_id IS NULL AND f.job_id IS NULL
               WHEN r.job_id IS NOT NULL THEN 1 = 0
               WHEN q.job_id IS NOT NULL THEN f.job_id IS NULL
               ELSE f.state IN ('cancelled', CASE WHEN u.failed > 0 THEN 'failed' ELSE 'succeeded' END) END, 1 = 0)
    """,
    "a run goes on, and nothing of it does": """
        SELECT u.id FROM tickwork.runs u JOIN tickwork.running r ON r.job_id = u.id
        WHERE  NOT EXISTS (SELECT 1 FROM tickwork.jobs j JOIN {live} AS l ON l.job_id = j.id WHERE j.run = u.id)
    """,
    "a job lives, and its run or its step does not": """
        SELECT j.run, j.step, j.idx, s.state, r.job_id
        FROM   {live} AS l JOIN tickwork.jobs j ON j.id = l.job_id
        LEFT   JOIN tickwork.steps s ON s.run = j.run AND s.step = j.step AND j.idx < s.total
        LEFT   JOIN tickwork.running r ON r.job_id = j.run
        WHERE  j.run IS NOT NULL AND (s.state IS NULL OR s.state <> 'open' OR r.job_id IS NULL)
    """,
}


def wrong(ledger: Ledger, parents: Parents) -> dict[str, list[Any]]:
    """Invariants of the runs of one dag; a violated invariant is reported with some of its rows."""
    pairs = [(child, parent) for child, some in parents.items() for parent in some]
    edges = ", ".join(f"('{child}', '{parent}')" for child, parent in pairs)
    values = {"edges": edges, "steps": len(parents), "live": _LIVE, "going": _GOING}
    found = {what: ledger.read(query.format(**values))[:3] for what, query in _WRONG.items()}
    return {what: rows for what, rows in found.items() if rows}


def claimed_out_of_time(ledger: Ledger) -> list[tuple[str, str, int]]:
    """Steps that were claimed while no attempt of their run went on: before it began, or after it ended."""
    query = """SELECT p.number, p.what, p.job_id, j.run, j.step, j.idx
               FROM proof p JOIN tickwork.jobs j ON j.id = p.job_id ORDER BY p.number"""
    going: set[str] = set()
    found = []
    for _, what, job, run, step, idx in ledger.read(query):
        if run is None and what == "claim":
            going.add(str(job))
        elif run is None:
            going.discard(str(job))
        elif what == "claim" and str(run) not in going:
            found.append((str(run), step, idx))
    return found


def accepted_twice(ledger: Ledger) -> list[Any]:
    """Steps of which two attempts were accepted as their success. None of the dags runs one again that succeeded."""
    query = """SELECT j.run, j.step, j.idx, a.attempt FROM tickwork.attempts a JOIN tickwork.jobs j ON j.id = a.job_id
               WHERE a.state = 'succeeded'"""
    return ledger.read(query)
