"""Read the output of a job, and take a job away from its worker."""

from itertools import groupby
from random import Random

from tickwork import Job, Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.outcome import Abandoned, decide
from tickwork.store.attempt_types import Finish
from tickwork.worker.run.capture import STRIDE


def output_of(job: Job, attempt: int | None = None) -> str:
    """Return the output of all attempts of a job, or of one attempt."""
    chunks = job.logs()
    while more := job.logs(after=(chunks[-1].attempt, chunks[-1].seq) if chunks else (0, -1)):
        chunks += more
    for number, group in groupby(chunks, key=lambda chunk: chunk.attempt):
        own = [chunk.seq // STRIDE for chunk in group if chunk.seq % STRIDE == 0]  # the others came by a descriptor
        first = 0 if own[:1] == [0] else 1  # over REST chunks are counted from 0
        assert own == list(range(first, first + len(own))), f"a piece of attempt {number} is missing"
    return "".join(chunk.text for chunk in chunks if attempt in (None, chunk.attempt))


def supersede(app: Tickwork, job: Job) -> None:
    """Take a running job away from its worker, as the reaper does when a lease ran out."""
    view, store = job.view, app.store
    (held,) = [one for one in store.open_attempts(WorkerId(str(view.worker))) if one.job_id == job.id]
    lost = decide(view, Abandoned(), Random(1))
    assert store.finish_attempts([Finish(view.id, view.attempt, held.claim, lost)]) == {view.id}
