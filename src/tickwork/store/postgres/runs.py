"""Dags and their runs on PostgreSQL (see `store.dags` and `store.runs`). The SQL is in sql/runs.sql.

A run's row is its lock. Whoever ends a step takes it before anything else, and advances the run in the same
transaction, so that two who end parents of one step at once come one after the other. What is to be written is gathered
and sent in one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from tickwork.core.dag.advance import Run, Standing
from tickwork.core.dag.graph import Graph, Step, decode_graph, definition_of, digest, encode_graph
from tickwork.core.dag.overview import StepTimes
from tickwork.core.flow.flow import home_lane
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import Claimed, JobState, JobView, NewJob
from tickwork.store import codec, runs
from tickwork.store.base import Finish, NewLog
from tickwork.store.dags import AssetView, DagView, InstanceView, StepView
from tickwork.store.postgres import documents
from tickwork.store.postgres.adapters import Rows, Statement
from tickwork.store.postgres.documents import array, text_array
from tickwork.store.postgres.notifier import Notifier
from tickwork.store.postgres.pool import Pool
from tickwork.store.postgres.session import Session
from tickwork.store.postgres.values import id_document, instant, utc
from tickwork.store.runs import Ended, Going, Graphs, ResultRow

T = TypeVar("T")
RunAll = Callable[[Sequence[Statement]], list[Rows]]

_PARAMS = msgspec.json.Decoder(dict[str, Raw])
_PASSES = 20  # of cancelling steps that move between queue and running meanwhile


class Place(NamedTuple):
    """What a job has to do with runs: the one that it is a step of, or that it is one; and how it ended, if it has."""

    job_id: str
    run: str | None
    step: str | None
    is_run: bool
    state: str | None


class PostgresRuns:
    """The rows of runs inside a transaction.

    `freed` are turnstiles that the ends of runs have left. `released`: there are jobs to be claimed that were not.
    """

    def __init__(self, run_all: RunAll, sql: Mapping[str, str], graphs: Graphs, now: datetime | None) -> None:
        self._run_all = run_all
        self._sql = sql
        self._graphs = graphs
        self._now = now
        self._waiting: list[Statement] = []
        self._ending: list[int] = []
        self._going: dict[str, Going] = {}  # read ahead, as are these steps
        self._standings: dict[tuple[str, str], Standing] = {}
        self.now_us = 0
        self.large_results = graphs.large_results
        self.freed: list[str] = []
        self.released = False

    def together(self, *wanted: tuple[str, dict[str, Any]]) -> list[Rows]:
        """Run named statements in one round trip, after those that were put off."""
        statements = [(self._sql[name], {"now": self._now, **values}) for name, values in wanted]
        put_off = self._take_put_off()
        rows = self._run_all([*put_off, *statements]) if put_off or statements else []
        self._note_freed(rows)
        return rows[len(put_off) :]

    def finish(self, run_last: RunAll) -> None:
        """Run what was put off, as the last statements of the transaction."""
        put_off = self._take_put_off()
        if put_off:
            self._note_freed(run_last(put_off))

    def _take_put_off(self) -> list[Statement]:
        put_off, self._waiting = self._waiting, []
        return put_off

    def _note_freed(self, rows: Sequence[Rows]) -> None:
        ending, self._ending = self._ending, []
        self.freed += [name for place in ending for job_id, name in rows[place] if job_id is None]

    def _put_off(self, name: str, **values: Any) -> None:
        self._waiting.append((self._sql[name], {"now": self._now, **values}))

    def lock(self, run_ids: Iterable[str], unbegun: Collection[str] = ()) -> None:
        """Lock runs. One of `unbegun` may have no row yet, and might get one meanwhile: its job is locked first."""
        ids = sorted(set(run_ids))
        first = [("lock_jobs", {"ids": array(sorted(unbegun))})] if unbegun else []
        if ids:
            self.together(*first, ("lock_runs", {"ids": array(ids)}))

    def going(self, run_ids: Sequence[str]) -> list[Going]:
        known = [self._going.pop(run) for run in run_ids if run in self._going]
        unknown = [run for run in run_ids if run not in {one.run.id for one in known}]
        if not unknown:
            return known
        ids = {"ids": array(unknown)}
        _, rows = self.together(("lock_runs", ids), ("going", ids))
        return [*known, *self._read_going(rows)]

    def _read_going(self, rows: Rows) -> list[Going]:
        self.now_us = max((row[-1] for row in rows), default=self.now_us)
        found = [_going(row) for row in rows]
        for one in found:
            self._graphs.note(one.run.id, one.run.dag, one.run.version)
        return found

    def graph(self, dag: str, version: int) -> Graph:
        known = self._graphs.get(dag, version)
        if known is not None:
            return known
        (((text,),),) = self.together(("dag_graph", {"name": dag, "version": version}))
        return self._graphs.put(dag, version, text)

    def steps(self, run: str, names: Sequence[str] | None) -> list[Standing]:
        known = [self._standings.pop((run, name)) for name in names or () if (run, name) in self._standings]
        if names is not None and len(known) == len(names):
            return known
        read = {one.step for one in known}
        wanted = None if names is None else text_array([name for name in names if name not in read])
        (rows,) = self.together(("steps", {"run": run, "names": wanted}))
        return [*known, *(_standing(row) for row in rows)]

    def result_rows(self, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
        (rows,) = self.together(("result_rows", _pairs(pairs)))
        return [ResultRow(*row) for row in rows]

    def failures(self, run: str, limit: int) -> list[tuple[str, str]]:
        return self.together(("failed_steps", {"run": run, "limit": limit}))[0]

    def instances(self, run: str, steps: Collection[str]) -> dict[tuple[str, int], tuple[JobId, str]]:
        (rows,) = self.together(("instances", {"run": run, "steps": text_array(sorted(steps))}))
        return {(step, idx): (JobId(job_id), state) for step, idx, job_id, state in rows}

    def put_steps(self, run: str, standings: Sequence[Standing], approvals: Mapping[str, Step], new: bool) -> None:
        wakes = [runs.wake_at_us(one, approvals.get(one.step), self.now_us) for one in standings]
        self._put_off(
            "put_steps",
            run=run,
            now_us=str(self.now_us),
            steps=text_array([one.step for one in standings]),
            states=array([one.state for one in standings]),
            pending=array([one.pending for one in standings]),
            succeeded=array([one.succeeded for one in standings]),
            failed=array([one.failed for one in standings]),
            skipped=array([one.skipped for one in standings]),
            total=array([one.total for one in standings]),
            ended=array([one.ended for one in standings]),
            bad=array([one.bad for one in standings]),
            mapped=array([one.mapped for one in standings]),
            blocked=array([one.blocked for one in standings]),
            reasons=text_array([one.reason for one in standings]),
            results=text_array([one.result for one in standings]),
            wakes_us=array(wakes),
        )

    def put_run(self, run: Run) -> None:
        self._put_off("put_run", open=run.open, failed=run.failed, id=run.id)

    def insert(self, jobs: Sequence[NewJob]) -> None:
        self.released |= bool(jobs)
        for group in codec.alike(jobs) if jobs else ():
            parts = [one.part for one in group if one.part]
            where = {"steps": text_array([one.step for one in parts]), "idxs": array([one.idx for one in parts])}
            shared = {**documents.new_job(group[0]), **_instances(group)}
            self._put_off("insert_step_jobs", **{**shared, **where, "run": parts[0].run})

    def insert_again(self, jobs: Sequence[NewJob]) -> None:
        self.released |= bool(jobs)
        for group in codec.alike(jobs) if jobs else ():
            self._put_off("renew_step_jobs", **{**documents.new_job(group[0]), **_instances(group)})

    def end_run(self, finish: Finish) -> None:
        self._ending.append(len(self._waiting))
        self._put_off("finish_attempts", **documents.endings([finish]))

    def produce(self, assets: Sequence[str], by: str) -> None:
        for name in assets:
            made = {"name": name, "by": by}
            steps = ("lock_assets", "made_anew", "freshen", "use_up_ready")
            _, ((self.now_us,),), _, dags = self.together(*((step, made) for step in steps))
            for (dag,) in dags:
                (rows,) = self.together(("task_definition", {"name": dag}))
                (values,) = documents.new_jobs([runs.triggered(codec.task_definition(rows[0]), by, self.now_us)])
                self._put_off("insert_guarded_jobs", **values)
                self.released = True

    # -- what the verbs do with it

    def close(self, verb: str, endings: Sequence[Finish], logs: Sequence[NewLog] = ()) -> Rows:
        """Close attempts, some of steps, and move their runs on; what the statement gave back.

        The runs are locked first. What else moving them takes is read in the same round trip, as far as it is known
        which steps wait for those that end.
        """
        steps = [one for one in endings if one.run is not None]
        ids = {"ids": array(sorted({str(one.run) for one in steps}))}
        writing = [("append_logs", {"logs": documents.new_logs(logs)})] if logs else []
        _, *_, rows, parts, going, standings = self.together(
            ("lock_runs", ids),
            *writing,
            (verb, documents.endings(endings)),
            ("parts", {"ids": array(sorted({one.job_id for one in steps}))}),
            ("going", ids),
            ("steps_of", _pairs(self._touched_by(steps))),
        )
        self._going = {one.run.id: one for one in self._read_going(going)}
        self._standings = {(run, row[0]): _standing(row) for run, *row in standings}
        closed = {job_id for job_id, _ in rows}
        self._advance([one for one in map(_place, parts) if one.job_id in closed])
        self._produce_all([one for one in endings if one.produce and one.job_id in closed])
        return rows

    def _produce_all(self, endings: Sequence[Finish]) -> None:
        """Note what ended jobs have made anew, those of them that succeeded."""
        making = {str(one.job_id): one.produce for one in endings}
        (rows,) = self.together(("succeeded_of", {"ids": array(making)})) if making else ([],)
        for (job_id,) in rows:
            self.produce(making[job_id], job_id)

    def _touched_by(self, endings: Iterable[Finish]) -> set[tuple[str, str]]:
        """The steps that ends concern, by run: their own, and those that wait for them."""
        touched = set()
        for one in endings:
            run, step = str(one.run), str(one.step)
            graph = self._graphs.of_run(run)
            touched |= {(run, name) for name in (step, *(graph.children[step] if graph else ()))}
        return touched

    def advance(self, job_ids: Collection[str]) -> None:
        """Move on the runs of those of these jobs that are steps and have ended."""
        self._advance(self.places(job_ids))

    def _advance(self, places: Iterable[Place]) -> None:
        endings = [Ended(one.run, one.step or "", JobState(one.state)) for one in places if one.run and one.state]
        if endings:
            runs.advance(self, endings)

    def places(self, job_ids: Collection[str]) -> list[Place]:
        (rows,) = self.together(("parts", {"ids": array([one for one in job_ids if is_id(one)])}))
        return [_place(row) for row in rows]

    def begin(self, worker: WorkerId, one: Claimed) -> None:
        """Begin a run that a worker has claimed, unless it has lost it again."""
        ids, held = {"ids": array([one.job_id])}, {"id": one.job_id, "attempt": one.attempt}
        _, begun, taken, _, rows = self.together(
            ("lock_jobs", ids),
            ("lock_runs", ids),
            ("hold_run", {**held, "worker": worker}),
            ("insert_run", held),
            ("going", ids),
        )
        if taken:
            again = begun[0][1] if begun else None
            steps = None if again is None else msgspec.json.decode(again, type=list[str])
            (going,) = self._read_going(rows)
            runs.begin(self, going, steps, first=not begun)

    def rerun(self, run: str, steps: Sequence[str] | None, first_us: int) -> bool:
        """Queue an ended run again, to start with these steps, or with what failed; False when it is none."""
        self.together(("lock_ended", {"id": run}))  # as prune does
        self.lock([run])
        values = {"ids": id_document([JobId(run)]), "spacing_us": 0, "first_us": first_us, "any_end": True}
        if not any(one.is_run for one in self.places([run])) or not self.together(("retry_jobs", values))[0]:
            return False
        self._put_off("set_again", id=run, again=None if steps is None else documents.document(steps))
        self.released = True
        return True

    def cancel(self, ids: Collection[str]) -> dict[str, str]:
        """Cancel jobs; of runs, what they have going, too. What became of each."""
        places = self.places(ids) if ids else []
        begins = [one.job_id for one in places if one.is_run]
        self.lock([one.job_id if one.is_run else str(one.run) for one in places], begins)
        became = self._cancel(ids) if ids else {}
        if places:
            self.advance([job_id for job_id, what in became.items() if what == "done"])
        for one in self.places(ids) if places else ():
            if one.is_run and became.get(one.job_id) == "done" and one.state is None:
                approvals = runs.open_approvals(self, one.job_id)
                (rows,) = self.together(("live_instances", {"run": one.job_id}))
                live = [job_id for (job_id,) in rows]
                if live:
                    self._cancel(live)
                    self.advance(live)
                runs.cancel_approvals(self, one.job_id, approvals)
        return became

    def _cancel(self, ids: Collection[str]) -> dict[str, str]:
        became: dict[str, str] = {}
        wanted = list(ids)
        for _ in range(_PASSES):
            (rows,) = self.together(("cancel_jobs", {"ids": id_document([JobId(one) for one in wanted])}))
            became.update(rows)
            wanted = [job_id for job_id, what in rows if what == "moved"]
            if not wanted:
                break
        return became


class PostgresDags:
    """A part of PostgresStore: the verbs. What it needs of the rest are its transactions, and a way to wake workers."""

    _sql: dict[str, str]
    _notifier: Notifier
    _graphs: Graphs

    def _perform(self, work: Callable[[Session], T], *, pool: Pool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def _open_freed(self, names: Sequence[str]) -> bool:
        raise NotImplementedError

    def _move_runs(self, work: Callable[[PostgresRuns], T], pool: Pool | None = None) -> T:
        """Run `work` as a transaction that moves runs, and wake the workers where something was released or is free."""

        def inside(session: Session) -> tuple[T, PostgresRuns]:
            ground = PostgresRuns(session.run_together, self._sql, self._graphs, session.now)
            result = work(ground)
            ground.finish(session.run_last)
            return result, ground

        result, ground = self._perform(inside, pool=pool, single=False)
        if ground.freed:
            self._open_freed(ground.freed)
        if ground.released:
            self._notifier.call()
        return result

    def _places(self, ids: Collection[str]) -> list[Place]:
        """What jobs have to do with runs; none for plain ones."""
        known = array([one for one in ids if is_id(one)])
        return [_place(row) for row in self._perform(lambda session: session.run("parts", ids=known))]

    def _end_steps(self, ids: Collection[str], state: str, error: str) -> int:
        """End steps that wait in the queue."""
        locks = [str(one.run) for one in self._places(ids) if one.run]

        def end(ground: PostgresRuns) -> int:
            ground.lock(locks)
            waiting = [one.job_id for one in ground.places(ids) if one.state is None]  # nobody else has ended them
            wanted = {"ids": id_document([JobId(one) for one in waiting]), "state": state, "error": error}
            (((count,),),) = ground.together(("drop_jobs", wanted))
            ground.advance(waiting)
            return int(count)

        return self._move_runs(end)

    def _arranged(self, worker: WorkerId, claimed: list[Claimed]) -> list[Claimed]:
        """What is left for a worker of what it has claimed: runs are begun, and steps are given their inputs."""
        for one in filter(runs.is_run, claimed):
            self._move_runs(lambda ground, one=one: ground.begin(worker, one))  # type: ignore[misc]
        jobs = [one for one in claimed if not runs.is_run(one)]
        pairs = runs.wanted_results(jobs)
        if not pairs:
            return jobs
        rows = self._perform(lambda session: session.run("result_rows", **_pairs(pairs)))
        return runs.with_inputs(jobs, [ResultRow(*row) for row in rows], self._graphs.large_results.load)

    def put_dag(self, graph: Graph) -> int:
        found = digest(graph)

        def put(session: Session) -> int:
            session.run("lock_dag", name=graph.name)
            newest = session.run("newest_dag", name=graph.name)
            if newest and newest[0][1] == found:
                return int(newest[0][0])
            version = newest[0][0] + 1 if newest else 1
            text = encode_graph(graph).decode()
            session.run("insert_dag", name=graph.name, version=version, digest=found, graph=text)
            session.run("define_tasks", tasks=documents.task_definitions([definition_of(graph, version)]))
            limits = runs.limits_of(graph, version).items()
            rules = documents.document({"name": name, "rule": codec.encode_rule(rule)} for name, rule in limits)
            session.run("declare_limits", limits=rules)
            session.run("forget_triggers", dag=graph.name)
            triggers = runs.triggers_of(graph)
            assets, groups = text_array([one for one, _ in triggers]), array([number for _, number in triggers])
            session.run("insert_triggers", dag=graph.name, assets=assets, groups=groups)
            return int(version)

        return self._perform(put, single=False)

    def dags(self, name: str | None = None) -> list[DagView]:
        wanted, values = ("newest_dags", {}) if name is None else ("versions_of_dag", {"name": name})
        rows = self._perform(lambda session: session.run(wanted, **values))
        return [DagView(name, version, decode_graph(text), utc(created)) for name, version, text, created in rows]

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        def begin_again(ground: PostgresRuns) -> bool:
            if not ground.rerun(run_id, steps, 0):
                return False
            if args is not None:
                ground.together(("set_args", {"id": run_id, "args": args.decode()}))
            return True

        return is_id(run_id) and self._move_runs(begin_again)

    def _retry_steps(self, ids: Sequence[JobId], first_us: int) -> dict[JobId, bool]:
        """Have runs start again with those of these jobs that are steps and failed; whether each of them does."""
        known = array([one for one in ids if is_id(one)])
        rows = self._perform(lambda session: session.run("failed_parts", ids=known))
        again: dict[str, list[str]] = {}
        for _, run, name in rows:
            again.setdefault(run, []).append(name)
        begun = {
            run: self._move_runs(lambda ground, run=run, names=names: ground.rerun(run, names, first_us))  # type: ignore[misc]
            for run, names in again.items()
        }
        return {JobId(job_id): begun[run] for job_id, run, _ in rows}

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        if not is_id(run_id):
            return []
        wanted = None if names is None else text_array(names)
        rows = self._perform(lambda session: session.run("steps", run=run_id, names=wanted))
        return [StepView(_standing(row), utc(row[13]), instant(row[14])) for row in rows]

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        if not is_id(run_id):
            return []
        rows = self._perform(lambda session: session.run("step_times", run=run_id))
        return [
            StepTimes(step, queued, running, instant(start), instant(end)) for step, queued, running, start, end in rows
        ]

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        if not is_id(run_id):
            return []
        values = {"run": run_id, "step": after[0], "idx": after[1], "limit": limit}
        rows = self._perform(lambda session: session.run("run_instances", **values))
        return [
            InstanceView(step, idx, JobId(job_id), state, attempt, instant(start), instant(end))
            for step, idx, job_id, state, attempt, start, end in rows
        ]

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        if not is_id(run_id):
            return []
        return self._perform(lambda session: session.run("failed_steps", run=run_id, limit=limit))

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        if not is_id(run_id):
            return []
        return self._views(self._sql["of_step"], {"run": run_id, "step": step, "first": first, "limit": limit})

    def _views(self, where: str, values: dict[str, Any], begins: str = "from_jobs") -> list[JobView]:
        raise NotImplementedError

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        if not is_id(run_id):
            return False
        said = runs.said(approved, by, note)
        return self._move_runs(lambda ground: runs.answer(ground, run_id, step, *said)) is not None

    def assets(self) -> list[AssetView]:
        rows = self._perform(lambda session: session.run("assets"))
        return [AssetView(name, utc(made), JobId(by)) for name, made, by in rows]

    def answer_overdue(self, limit: int) -> int:
        overdue = self._perform(lambda session: session.run("overdue_steps", limit=limit))
        for run, step in overdue:
            self._move_runs(lambda ground, run=run, step=step: runs.answer_by_default(ground, run, step))  # type: ignore[misc]
        return len(overdue)


def _pairs(pairs: Collection[tuple[str, str]]) -> dict[str, str]:
    ordered = sorted(pairs)
    return {"runs": array([run for run, _ in ordered]), "steps": text_array([step for _, step in ordered])}


def _instances(group: Sequence[NewJob]) -> dict[str, str]:
    """What differs between jobs of steps that are alike."""
    inputs = [one.part.inputs if one.part else None for one in group]
    return {
        "ids": array([one.id for one in group]),
        "args": text_array([one.args.decode() for one in group]),
        "lanes": text_array([None if one.flow is None else home_lane(one.queue, one.flow) for one in group]),
        "flows": text_array([codec.encode_flow(one.flow) for one in group]),
        "inputs": text_array([None if one is None else one.decode() for one in inputs]),
    }


def _going(row: Any) -> Going:
    id, dag, version, args, open, failed, cancelled, *about = row
    attempt, priority, collection, labels, flow, policy, failures, _ = about
    run = Run(id, dag, version, _PARAMS.decode(args), open, failed, cancelled)
    stamped = codec.decode_flow(flow)
    tenant = None if stamped is None else stamped.tenant
    around = (priority, collection, codec.decode_labels(labels), tenant)
    return Going(run, attempt, *around, codec.decode_policy(policy), failures)


def _standing(row: Any) -> Standing:
    return Standing(*row[:13])


def _place(row: Any) -> Place:
    return Place(*row)
