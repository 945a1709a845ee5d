"""A worker does what an operator asks of it through the store."""

from tests.waiting import eventually
from tickwork import Job, Tickwork
from tickwork.core.ids import WorkerId
from tickwork.errors import WaitTimeout


def only_worker(app: Tickwork) -> WorkerId:
    (worker,) = eventually(lambda: [one for one in app.store.reads.workers() if one.state == "running"])
    return WorkerId(worker.id)


def still_queued(job: Job) -> bool:
    """Return whether a job stays unclaimed for longer than an idle worker would need."""
    try:
        job.wait(0.3)
    except WaitTimeout:
        return job.state == "queued"
    return False


def test_a_quiet_worker_claims_nothing_until_it_goes_on(app: Tickwork) -> None:
    @app.task
    def work() -> None: ...

    with app.worker(lease="1s"):
        first = work.enqueue()
        assert first.wait(10) == "succeeded"
        worker = only_worker(app)
        assert app.store.operations.ask_worker(worker, "quiet")
        eventually(lambda: still_queued(work.enqueue()), what="nothing is claimed any more")
        assert app.store.operations.ask_worker(worker, None)
        eventually(lambda: not app.jobs(state="queued"))


def test_a_worker_that_is_asked_to_stop_finishes_what_runs_and_leaves(app: Tickwork) -> None:
    @app.task
    def work() -> str:
        return "done"

    with app.worker(lease="1s"):
        worker = only_worker(app)
        last = work.enqueue()
        assert last.wait(10) == "succeeded"
        assert app.store.operations.ask_worker(worker, "stop")
        eventually(lambda: worker not in {one.id for one in app.store.reads.workers()})
        assert work.enqueue().state == "queued"
