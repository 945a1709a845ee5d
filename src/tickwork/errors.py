"""Every exception that Tickwork raises.

    TickworkError
    ├── InvalidInput (also ValueError)       refused before anything was stored
    │   ├── InvalidArguments                 a task's arguments do not fit its signature or its type hints
    │   ├── InvalidPayload                   a value that JSON, or one of the stores, cannot hold, or that is too large
    │   ├── InvalidOption                    an unknown option, or an invalid value for one
    │   └── InvalidDag                       a dag that could not run: a cycle, an unknown step, ...
    ├── UnknownTask                          no task of that name in this app
    ├── KeyTaken                             another job holds the key and cannot take the place of the new job
    ├── JobNotFound                          no such job in this store
    ├── ScheduleNotFound (also KeyError)     no such schedule in this store
    ├── DagNotFound                          no such dag, or no such version of it, in this store
    ├── HookNotFound                         no such hook in this store
    ├── NotificationNotFound                 no such notification, or no such channel, in this store
    ├── JobEnded                             the job ended without success
    │   ├── JobFailed                        its last attempt failed, and no retry is left
    │   ├── JobCancelled                     it was cancelled
    │   ├── JobExpired                       it was not started before its deadline
    │   └── JobDropped                       a gate dropped it
    ├── WaitTimeout (also TimeoutError)      the job had not ended within the timeout of the caller
    ├── LeaseLost                            this attempt was superseded; nothing it writes is accepted any more
    ├── NoCurrentJob                         current_job() was called outside of a handler, or in a batch handler
    ├── WorkerError                          a worker could not start, or its children keep dying
    ├── CommandFailed                        a command of the task `shell` did not end with exit code 0
    ├── RequestFailed                        a request of the task `http` got no answer, or an unexpected one
    ├── SecretError                          a secret cannot be encrypted or decrypted here
    ├── BlobError                            a result too large for the store cannot be written or read
    └── StoreError                           the database reported an error
        ├── StoreUnreachable                 it does not answer
        ├── StoreNotOurs                     a file or schema that is not Tickwork's, or cannot be one
        ├── SchemaMismatch                   its schema is newer or older than this version of Tickwork
        ├── StoreReadOnly                    it cannot be written
        ├── StoreFull                        its disk is full
        └── MixedDrivers                     two SQLite libraries on one file in one process

    InvariantBroken                          an invariant would have been violated; the transaction was rolled back

Handlers control the outcome of their own job by raising Retry, Fatal, Snooze or Cancel. A handler that is ended from
outside gets Interrupted, which is a BaseException so that `except Exception` does not swallow it.
"""

from __future__ import annotations

from datetime import timedelta


class TickworkError(Exception):
    """The base class of the exceptions that Tickwork raises to its callers."""


class InvalidInput(TickworkError, ValueError):
    """An input was refused before anything was stored."""


class InvalidArguments(InvalidInput):
    """The arguments of a task do not fit its signature or its type hints."""


class InvalidPayload(InvalidInput):
    """A value that JSON or one of the stores cannot hold, or that is larger than the cap."""


class InvalidOption(InvalidInput):
    """An unknown option, or an invalid value for one."""


class InvalidDag(InvalidInput):
    """A dag that could not run: a cycle, an unknown step, a reference where a value is needed."""


class UnknownTask(TickworkError):
    """No task of that name is registered in this app."""


class KeyTaken(TickworkError):
    """Another job holds the key of a new job: it is of another task, or `if_exists` is "error". Nothing was stored.

    `job_id`, `task` and `state` describe the job that holds the key.
    """

    def __init__(self, key: str, job_id: str, task: str, state: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.job_id = job_id
        self.task = task
        self.state = state


class JobNotFound(TickworkError):
    """The store has no job of that id, or the job was pruned."""


class ScheduleNotFound(TickworkError, KeyError):
    """The store has no schedule of that name."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class DagNotFound(TickworkError):
    """The store has no dag of that name, or not the requested version of it."""


class HookNotFound(TickworkError):
    """The store has no hook of that name."""


class NotificationNotFound(TickworkError):
    """The store has no notification, or no channel, of that name."""


class JobEnded(TickworkError):
    """A job ended without a result. `job_id` is its id and `error` the reason."""

    def __init__(self, job_id: str, message: str, error: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.error = error


class JobFailed(JobEnded):
    """The last attempt failed and no retry is left."""


class JobCancelled(JobEnded):
    """The job was cancelled."""


class JobExpired(JobEnded):
    """The job was not started before its deadline."""


class JobDropped(JobEnded):
    """A gate dropped the job."""


class WaitTimeout(TickworkError, TimeoutError):
    """The job did not end within the timeout of the caller. The job continues."""


class LeaseLost(TickworkError):
    """This attempt was superseded or reclaimed; the store rejects everything that it writes."""


class NoCurrentJob(TickworkError):
    """There is no current job: this code does not run inside a handler."""


class WorkerError(TickworkError):
    """A worker could not start, or its child processes keep dying."""


class CommandFailed(TickworkError):
    """A command of the task `shell` did not end with exit code 0. `exit_code` is None when it could not be run."""

    def __init__(self, exit_code: int | None, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RequestFailed(TickworkError):
    """A request of a built-in task failed; a later attempt may succeed. `status` is None without a response."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BlobError(TickworkError):
    """The blob of a result too large for the store cannot be written, or is gone, damaged or unreachable."""


class SecretError(TickworkError):
    """A secret cannot be encrypted or decrypted here: the key is missing or a different one, or the value was
    changed.
    """


class StoreError(TickworkError):
    """The database reported an error."""


class StoreUnreachable(StoreError):
    """The database does not answer. The operation may or may not have been carried out."""


class StoreNotOurs(StoreError):
    """A file or schema was not created by Tickwork, or cannot be used for its store."""


class SchemaMismatch(StoreError):
    """The schema of the store is newer or older than this version of Tickwork."""


class StoreReadOnly(StoreError):
    """The store is read-only."""


class StoreFull(StoreError):
    """The disk of the store is full."""


class MixedDrivers(StoreError):
    """Two SQLite libraries would open one file in one process, which can corrupt it."""


class InvariantBroken(TickworkError):
    """An internal invariant would have been violated. The transaction was rolled back; please report it as a bug."""


class Retry(Exception):
    """Raised by a handler to retry its job after `after` (a duration). The attempt counts as a failure."""

    def __init__(self, message: str = "the handler asked for a retry", *, after: str | timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after


class Fatal(Exception):
    """Raised by a handler to fail its job at once, without retries. The job becomes a dead letter."""


class Snooze(Exception):
    """Raised by a handler to run its job again after `after`. The attempt does not count as a failure."""

    def __init__(self, after: str | timedelta) -> None:
        super().__init__(f"snoozed for {after}")
        self.after = after


class Cancel(Exception):
    """Raised by a handler to end its job as cancelled."""


class Interrupted(BaseException):
    """Raised inside a handler that is stopped from outside: its timeout has passed, or its job was cancelled."""


def check(holds: object, broken: str) -> None:
    """Raise InvariantBroken if an invariant does not hold. Unlike `assert`, it is active under -O."""
    if not holds:
        raise InvariantBroken(f"{broken} This is a bug in Tickwork: nothing was written. Please report it.")
