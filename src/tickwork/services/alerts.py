"""The alert service: looks for cases of notification rules, and enqueues messages as jobs of built-in tasks.

Every worker and server runs it, without a leader: each look stores the notification under its next version, and the
messages in the same transaction. So each case is reported once. Delivery is an ordinary job, with its own retries.

Events of the last seconds are left to the next look: a transaction that has not committed yet may still add to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tickwork.api.client import workers_of
from tickwork.clock import Clock
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.notify.channels import Channel
from tickwork.core.notify.delivery import delivery, message_of
from tickwork.core.notify.rule import AlertCase, Notification, cases_of, concerns
from tickwork.core.notify.state import AlertDigest, AlertState, EndedMark, judged, lasting, not_ahead, under_way
from tickwork.core.why import explain
from tickwork.store.admin.notifications import NotificationMove, NotificationView
from tickwork.store.base import Store

_log = logging.getLogger("tickwork.services")
INTERVAL_S = 5.0
LAG = timedelta(seconds=5)
PAGE = 1000


@dataclass(frozen=True, slots=True)
class AlertUpdate:
    """The result of a look: new cases, the new state of the notification, and whether there is more to read now."""

    fresh: list[AlertCase]
    watch: AlertState
    is_full: bool = False


class Alerts:
    """Looks for cases of due notifications. Safe to run several times at once, on several machines."""

    def __init__(self, store: Store, ids: IdMaker, clock: Clock, public_url: str | None = None) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._public_url = public_url
        self._troubled: dict[str, str] = {}

    def tick(self, now: float) -> float:
        """Look at the due notifications; return the seconds until the next look."""
        due = self._store.notifications.due_notifications()
        if not due:
            return INTERVAL_S
        channels = self._store.notifications.list_channels()
        again = [self._look(view, channels) for view in due]
        return 0.0 if any(again) else INTERVAL_S

    def _look(self, view: NotificationView, channels: Mapping[str, Channel]) -> bool:
        """Look for cases of one notification; return whether there is more to read.

        An error is logged and does not delay other notifications.
        """
        try:
            now = self._store.now()
            seen = LOOKS[view.notification.on](self._store, view.notification, not_ahead(view.watch, now), now)
            watch, digest = judged(view.notification, seen.watch, seen.fresh, now)
            jobs = () if digest is None else self._jobs(digest, channels)
        except Exception as error:
            self._complain(view.notification.name, error)
            return False
        look_at = now if seen.is_full else now + timedelta(seconds=INTERVAL_S)
        move = NotificationMove(view.notification.name, view.version, watch, look_at, jobs)
        return self._store.notifications.move_notification(move) and seen.is_full

    def _jobs(self, digest: AlertDigest, channels: Mapping[str, Channel]) -> tuple[NewJob, ...]:
        """Return the delivery jobs of a message, one for each channel."""
        message = message_of(digest, self._whys(digest), self._public_url)
        to = [channels[name] for name in digest.notification.to if name in channels]
        creator = f"notification:{digest.notification.name}"
        return tuple(delivery(JobId(self._ids.new_id()), channel, message, creator) for channel in to)

    def _whys(self, digest: AlertDigest) -> dict[str, str]:
        """Return for each example job the explanation of its state, by `core.why.explain`."""
        views = self._store.reads.get_jobs([JobId(case.job) for case in digest.examples if case.job is not None])
        if not views:
            return {}
        gates = [one.gate for one in self._store.limits.list_gates()]
        states = {view.state for view in views.values()}
        live = self._store.reads.workers() if JobState.QUEUED in states else []
        whys: dict[str, str] = {}
        for id, view in views.items():
            workers = live if view.state is JobState.QUEUED else workers_of(self._store, view)
            whys[id] = explain(view, workers, digest.told_at, self._store.limits.hold(id), gates)
        return {id: f"{views[JobId(id)].task} {id}: {why}" for id, why in whys.items()}

    def _complain(self, name: str, error: Exception) -> None:
        """Log an error of a notification once, not at every look."""
        told = f"{type(error).__name__}: {error}"
        if self._troubled.get(name) != told:
            self._troubled[name] = told
            _log.error("Notification %r cannot be judged for now. %s", name, told)


# -- one function for each kind of notification


def _ended_badly(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find jobs that ended without success, or dead letters that have remained for the notification's `after`."""
    until = now - (notification.after if notification.on == "dead" else LAG)
    sightings = store.notifications.ended_jobs(watch.mark, until, PAGE, badly=True)
    is_full = len(sightings) == PAGE
    mark = EndedMark(sightings[-1].ended_at or until, sightings[-1].job_id) if is_full else _later(watch.mark, until)
    return AlertUpdate(cases_of(notification, sightings, now), msgspec.structs.replace(watch, mark=mark), is_full)


def _never_started(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find jobs that have waited for longer than `after`, and jobs that expired before that."""
    until = now - LAG
    waiting = store.notifications.waiting_jobs(watch.mark.at - notification.after, until - notification.after, PAGE)
    expired = store.notifications.ended_jobs(watch.mark, until, PAGE, badly=True)
    cases = cases_of(notification, [*waiting, *expired], now)
    return AlertUpdate(cases, msgspec.structs.replace(watch, mark=_later(watch.mark, until)))


def _took_too_long(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find jobs that started too late or take too long, also if they have ended since the last look."""
    until = now - LAG
    task = notification.task or notification.dag
    ended = store.notifications.ended_jobs(watch.mark, until, PAGE, badly=False, task=task)
    is_full = len(ended) == PAGE
    running = cases_of(notification, store.notifications.running_jobs(PAGE), now)
    over = cases_of(notification, ended, now)
    fresh, watch = under_way(watch, running, over, {one.job_id for one in ended})
    mark = EndedMark(ended[-1].ended_at or until, ended[-1].job_id) if is_full else _later(watch.mark, until)
    return AlertUpdate(fresh, msgspec.structs.replace(watch, mark=mark), is_full)


def _schedule_missed(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find occurrences that were missed."""
    until = now - LAG
    missed = [
        one
        for one in store.notifications.missed_fires(watch.mark.at, until, PAGE)
        if notification.schedule in (None, one.schedule)
    ]
    cases = [
        AlertCase(
            f"{one.schedule}@{one.due_at.isoformat()}",
            f"schedule {one.schedule} missed {one.due_at:%Y-%m-%d %H:%M:%S} UTC: {one.reason or one.action}",
        )
        for one in missed
    ]
    return AlertUpdate(cases, msgspec.structs.replace(watch, mark=_later(watch.mark, until)))


def _worker_lost(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find workers that were lost since the notification was stored."""
    since = watch.mark.at
    lost = [worker for worker in store.reads.workers() if worker.state == "lost" and worker.lease_until > since]
    cases = [
        AlertCase(
            worker.id, f"worker {worker.host}:{worker.pid} fell silent at {worker.lease_until:%Y-%m-%d %H:%M:%S} UTC"
        )
        for worker in lost
    ]
    fresh, watch = lasting(watch, cases)
    return AlertUpdate(fresh, watch)


def _queue_older_than(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find queues whose oldest due job has waited for longer than `after`."""
    cases = [
        AlertCase(
            queue.name,
            f"queue {queue.name}: {queue.due:,} jobs are due, the oldest since {queue.oldest_due_at:%H:%M} UTC",
        )
        for queue in store.reads.queues()
        if notification.queue in (None, queue.name)
        and queue.oldest_due_at is not None
        and now - queue.oldest_due_at > notification.after
    ]
    fresh, watch = lasting(watch, cases)
    return AlertUpdate(fresh, watch)


def _silent(store: Store, notification: Notification, watch: AlertState, now: datetime) -> AlertUpdate:
    """Find out whether no success occurred for `after`."""
    until = now - LAG
    sightings = store.notifications.ended_jobs(
        watch.mark, until, PAGE, badly=False, task=notification.task or notification.dag
    )
    is_full = len(sightings) == PAGE
    ends = [one.ended_at for one in sightings if one.state == "succeeded" and concerns(notification, one)]
    alive_at = max([one for one in (watch.alive_at, *ends) if one is not None], default=until)
    whom = notification.task or notification.dag or notification.schedule
    text = f"{whom} has not succeeded since {alive_at:%Y-%m-%d %H:%M:%S} UTC"
    cases = [AlertCase("silence", text)] if not is_full and until - alive_at > notification.after else []
    fresh, watch = lasting(watch, cases)
    mark = EndedMark(sightings[-1].ended_at or until, sightings[-1].job_id) if is_full else _later(watch.mark, until)
    return AlertUpdate(fresh, msgspec.structs.replace(watch, mark=mark, alive_at=alive_at), is_full)


def _later(mark: EndedMark, until: datetime) -> EndedMark:
    """Return the mark up to which events are read: `until`, or the old mark if it is later.

    A new notification starts at its creation, and looks end LAG earlier than now.
    """
    return mark if mark.at >= until else EndedMark(until)


Look = Callable[[Store, Notification, AlertState, datetime], AlertUpdate]
LOOKS: dict[str, Look] = {
    "failed": _ended_badly,
    "dead": _ended_badly,
    "late": _took_too_long,
    "never_started": _never_started,
    "sla_missed": _took_too_long,
    "schedule_missed": _schedule_missed,
    "worker_lost": _worker_lost,
    "queue_older_than": _queue_older_than,
    "silent": _silent,
}
