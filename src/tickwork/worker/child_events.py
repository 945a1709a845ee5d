"""Process the messages that child processes and handler threads send to the worker, and answer their requests."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import assert_never

import msgspec

from tickwork.core.access.secret_policy import SecretUse
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import Claimed
from tickwork.core.outcome import Crashed, Released
from tickwork.errors import StoreError, TickworkError
from tickwork.store.attempt_types import NewLog, Progress
from tickwork.worker.claim_pacing import Prefetch
from tickwork.worker.finisher import Finisher
from tickwork.worker.held_jobs import HeldJobs
from tickwork.worker.ipc import protocol
from tickwork.worker.ipc.protocol import AskReply, AttemptEnd, ChildDied, FromExecutor
from tickwork.worker.worker_types import AttemptRunner, WorkerParts

_log = logging.getLogger("tickwork.worker")
KILL_GRACE_S = 1.5  # time for a child to end its own overdue attempt before the supervisor kills it


class ChildEvents:
    """Handles the messages of executors. `listen` makes no store calls; `answer_asks` does."""

    def __init__(self, parts: WorkerParts, held: HeldJobs, finisher: Finisher, prefetch: Prefetch) -> None:
        self._store = parts.store
        self._pools = parts.pools
        self._held = held
        self._finisher = finisher
        self._prefetch = prefetch
        self._secret = parts.secret
        self._inbox: deque[tuple[AttemptRunner, FromExecutor | ChildDied]] = deque()
        self._asks: deque[tuple[AttemptRunner, protocol.Ask]] = deque()

    def listen(self) -> None:
        """Process all messages that have arrived since the last call."""
        self._inbox.extend(self._pools.poll())
        while self._inbox:
            self._hear(*self._inbox.popleft())

    def clear(self) -> None:
        """Discard the messages and requests that were not processed."""
        self._inbox.clear()
        self._asks.clear()

    def _hear(self, source: AttemptRunner, message: FromExecutor | ChildDied) -> None:
        """Dispatch one message by its type."""
        match message:
            case protocol.AttemptsEnded(ends):
                for end in ends:
                    self._hear_end(end)
            case protocol.Started():
                self._hear_start(message)
            case protocol.Stuck():
                self._hear_stuck(message)
            case protocol.Returned(job_ids):
                self._finisher.release(job_ids)
            case protocol.Wrote() | protocol.Progressed():
                self._note(message)
            case protocol.Ask():
                self._asks.append((source, message))
            case ChildDied(job_ids, error, alone):
                self._hear_death(job_ids, error, alone)
            case protocol.ConnectionsRefused(count):
                self._finisher.count_refused(count)
            case protocol.Hello() | protocol.HideSecret():
                pass
            case protocol.LoadFailed(error):
                _log.error("A child process could not start: %s", error)
            case _:
                assert_never(message)

    def _note(self, message: protocol.Wrote | protocol.Progressed) -> None:
        """Buffer log text or progress of an attempt, unless that claim no longer holds the job."""
        job_id, claim = JobId(message.job_id), ClaimId(message.claim)
        if self._held.attempt(job_id, claim) is None:
            return
        notes = self._finisher.notes
        if isinstance(message, protocol.Wrote):
            notes.logs.append(NewLog(job_id, claim, message.seq, message.text, message.shared))
        else:
            notes.progress[job_id] = Progress(job_id, claim, message.fraction, message.note)

    def _hear_start(self, start: protocol.Started) -> None:
        """Mark the jobs of a call as begun, and set the time at which its process is killed if it overruns."""
        held = self._held.attempt(start.job_id, start.claim)
        if held is not None:
            for one in self._held.company(start.job_id):
                one.begun = True
        timeout = None if held is None else self._held.timeout(held)
        if timeout is not None:
            kill_at = start.began + timeout.total_seconds() + KILL_GRACE_S
            self._held.kill_at(kill_at, start.job_id, start.claim)

    def kill_holder(self, job_id: str) -> None:
        """Kill the process that runs a job, and release the other jobs of that process.

        Messages that the process sent before it died are processed first.
        """
        beside = self._pools.kill_holder(job_id)
        self.listen()
        self._finisher.release(beside)

    def _hear_stuck(self, stuck: protocol.Stuck) -> None:
        """Kill the process of an attempt that cannot be interrupted, end the attempt, and release the other jobs."""
        beside = self._pools.kill_holder(stuck.job_id)
        self.listen()  # process output and ends that were sent just before the kill
        if self._held.attempt(stuck.job_id, stuck.claim) is not None:
            for job in [held.job for held in self._held.company(stuck.job_id)]:
                self._hear_end(AttemptEnd(job.job_id, job.claim, stuck.kind, stuck.began, error=stuck.error))
        self._finisher.release(beside)

    def _hear_end(self, end: AttemptEnd) -> None:
        """Pass the end of an attempt to the finisher, unless that claim no longer holds the job."""
        held = self._held.attempt(end.job_id, end.claim)
        if held is None:
            return
        self._prefetch.took(end.took)
        waited = max(0.0, end.began - held.claimed_mono)
        if end.settled:
            self._finisher.ended_elsewhere(held, waited, end.took)
        elif end.kind == "released":
            self._finisher.end(held, Released(begun=held.begun), waited, end.took)
        else:
            self._finisher.end(held, end.ending(), waited, end.took)

    def _hear_death(self, job_ids: Sequence[str], error: str, alone: bool) -> None:
        """End the attempts of a dead process as crashed; release those that may begin only once and have not."""
        for job_id in job_ids:
            company = self._held.company(job_id)
            for held in company:
                if held.job.policy.on_lost == "fail" and not held.begun and not alone:
                    self._finisher.end(held, Released(), 0.0)  # it was queued in the child, and has not begun
                else:
                    self._finisher.end(held, Crashed(error, alone and len(company) == 1), 0.0)

    def answer_asks(self) -> None:
        """Answer the requests of handlers: save or load a state, give a map index, open a secret.

        A request stays queued when the store raises, and is answered by the next call.
        """
        while self._asks:
            source, ask = self._asks[0]
            answer = self._answer(ask, JobId(ask.job_id))
            self._asks.popleft()
            source.send(answer)

    def _answer(self, ask: protocol.Ask, job_id: JobId) -> AskReply:
        """Return the reply to one request. It is not accepted if that claim no longer holds the job."""
        held = self._held.attempt(job_id, ask.claim)
        if held is None:
            return AskReply(ask.request, False, None)
        if ask.what == "place":
            place = self._store.dags.map_places([job_id]).get(job_id)
            return AskReply(ask.request, True, None if place is None else msgspec.json.encode(place))
        if ask.what == "secret":
            return self._open_secret(ask, held.job)
        if ask.state is None:
            return AskReply(ask.request, True, self._store.saved_state(job_id))
        return AskReply(ask.request, self._store.save_state(job_id, ClaimId(ask.claim), ask.state), None)

    def _open_secret(self, ask: protocol.Ask, job: Claimed) -> AskReply:
        """Return the reply with the value of a secret, if the job may use the secret.

        The permission is checked with the task, queue and run of the claimed job, never with data from its process.
        """
        try:
            value = self._secret((ask.state or b"").decode(), SecretUse(job.task, job.queue, job.run))
        except StoreError:
            raise
        except Exception as error:  # an invalid secret or key is an error of this attempt, not of the worker
            why = (
                str(error) if isinstance(error, TickworkError) else f"the secret does not open: {type(error).__name__}."
            )
            return AskReply(ask.request, False, why.encode())
        return AskReply(ask.request, True, None if value is None else value.encode("utf-8", "surrogatepass"))
