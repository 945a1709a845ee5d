"""The `Tickwork` app object: it opens the store that its URL names, and connects clients and workers to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import msgspec

from tickwork.api.async_twins import twin
from tickwork.api.client import Client, Job, Registrations
from tickwork.api.job_calls import JobCalls
from tickwork.api.limits import LimitCalls
from tickwork.api.notifications import Notifications
from tickwork.api.schedule_rules import Calendar, Rule, read_rule
from tickwork.api.schedules import Schedule, Schedules
from tickwork.blobs import AN_OBJECT, Blobs, LargeResults, open_blobs
from tickwork.config import Settings, find_settings, sqlite_path
from tickwork.core.arguments.encode_by_schema import StoredSignature
from tickwork.core.job import TaskDefinition
from tickwork.core.job_options import Options, calendar_name, task_name
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.core.schedule.spec import ScheduleSpec, TargetKind, new_spec
from tickwork.core.text.mask_url import masked
from tickwork.core.workers.autoscale import QueueLoad
from tickwork.dag import Dag
from tickwork.errors import InvalidInput
from tickwork.registry import AppRegistry
from tickwork.security.vault import Vault
from tickwork.services.start_services import Nudge
from tickwork.store.base import PoolSizes, Store
from tickwork.store.dags import AssetView, DagView
from tickwork.store.reads.queue_counts import queue_loads
from tickwork.task import Enqueues, Task
from tickwork.worker.in_process import InProcessOptions, worker_in_process
from tickwork.worker.supervisor import GRACE, SLOTS


def open_store(
    settings: Settings,
    *,
    upgrade: bool = False,
    blobs: Blobs | None = None,
    on_refused: Callable[[], None] | None = None,
) -> Store:
    """Open the store that the settings name, with the given blob storage or else the one that the settings name.

    `on_refused` marks a store for handlers, which may wait longer for a connection than other stores. It is called
    for each connection that the database server refuses.
    """
    blobs = open_blobs(settings) if blobs is None else blobs
    path = sqlite_path(settings.place)
    if path is not None:
        from tickwork.store.sqlite import SqliteStore

        return SqliteStore(path, driver=settings.driver, adopt=upgrade, blobs=blobs)
    if settings.url.startswith(("postgresql:", "postgres:")):
        try:
            from tickwork.store.postgres import PostgresStore
        except ImportError as error:
            raise InvalidInput('PostgreSQL needs its driver: pip install "tickwork[postgres]"') from error
        return PostgresStore(
            settings.url,
            schema=settings.home,
            listen_url=settings.listen_url,
            upgrade=upgrade,
            blobs=blobs,
            sizes=PoolSizes(*settings.pool_sizes),
            on_refused=on_refused,
        )
    raise InvalidInput(
        f"the store's URL begins with {masked(settings.url).partition(':')[0]!r}, which names no store. "
        f"Write sqlite:///tickwork.db or postgresql://user@host/database."
    )


class Tickwork(LimitCalls, JobCalls, AppRegistry):
    """An app: its tasks, and the store that holds their jobs.

    `Tickwork()` uses TICKWORK_URL, or tickwork.toml, or an embedded SQLite file in the current folder. The store is
    opened on first use, so importing an app has no side effects. `upgrade=True` applies migrations. `namespace`
    selects a separate store at the same URL. `blobs` is where results too large for the store are written: a folder,
    an object (see `Blobs`), or the import path of an object, `shop.storage:blobs`. `pool_size` and `user_pool_size`
    limit the PostgreSQL connections of this process.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        driver: str | None = None,
        schema: str | None = None,
        listen_url: str | None = None,
        namespace: str | None = None,
        upgrade: bool = False,
        blobs: str | os.PathLike[str] | Blobs | None = None,
        pool_size: int | None = None,
        user_pool_size: int | None = None,
    ) -> None:
        super().__init__()
        given = {"url": url, "driver": driver, "schema": schema, "listen_url": listen_url, "namespace": namespace}
        sizes = {"pool_size": pool_size, "user_pool_size": user_pool_size}
        given |= {name: None if size is None else str(size) for name, size in sizes.items()}
        self._given_blobs = blobs if isinstance(blobs, Blobs) else None
        place = AN_OBJECT if isinstance(blobs, Blobs) else None if blobs is None else os.fspath(blobs)
        self.settings, self.settings_from = find_settings({**given, "blobs": place})
        self._upgrade = upgrade
        self.on_refused: Callable[[], None] | None = None  # set in a child process of a worker
        self.cached_registrations: Registrations | None = None  # set by a server
        self._opening = threading.Lock()
        self._store: Store | None = None
        self._nudges: list[Nudge] = []

    @property
    def url(self) -> str:
        """The URL of the store, with its namespace applied."""
        return self.settings.place

    @cached_property
    def blobs(self) -> Blobs | None:
        """The blob storage for results that are too large for the store; None if there is none."""
        return open_blobs(self.settings) if self._given_blobs is None else self._given_blobs

    @cached_property
    def large_results(self) -> LargeResults:
        """The converter that moves large results to blob storage and loads them again."""
        return LargeResults(self.blobs)

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        with self._opening:
            if self._store is None:
                self._store = open_store(
                    self.settings, upgrade=self._upgrade, blobs=self.blobs, on_refused=self.on_refused
                )
            return self._store

    @property
    def registrations(self) -> Registrations:
        """The registered workers and task definitions, used to enqueue and explain jobs.

        A server overrides this with a cache.
        """
        return self.store.reads if self.cached_registrations is None else self.cached_registrations

    @property
    def vault(self) -> Vault:
        """The secrets of the store."""
        return Vault(lambda: self.store, self.url, namespace=self.settings.namespace)

    @property
    def client(self) -> Client:
        """The job client of this store."""
        return Client(self.store, self.decode_result, self.registrations)

    def close(self) -> None:
        """Close the store. It is opened again on next use."""
        with self._opening:
            if self._store is not None:
                self._store.close()
            self._store = self.cached_registrations = None

    def decode_result(self, name: str, data: bytes) -> Any:
        """Decode a stored result, loading it from blob storage if necessary.

        The result of an unknown task is returned as plain JSON.
        """
        return super().decode_result(name, self.large_results.whole(data))

    # -- jobs

    def enqueue(self, task: str | Task[Any, Any] | Dag[Any, Any], /, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a task by name, for code that does not import the task.

        Defaults come from the definition in the store.
        """
        return self.named(task).enqueue(*args, **kwargs)

    async def enqueue_async(self, task: str | Task[Any, Any] | Dag[Any, Any], /, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a task by name without blocking the event loop."""
        named = await asyncio.to_thread(self.named, task)  # may read the task's definition
        return await named.enqueue_async(*args, **kwargs)

    def named(self, task: str | Task[Any, Any] | Dag[Any, Any]) -> Enqueues[Any, Any]:
        """Return a task by name, ready for `.options(...)` and `.enqueue(...)`.

        This program need not have imported the task.
        """
        name = task_name(task if isinstance(task, str) else task.name)
        known = self.tasks.get(name) or self.dags.get(name)
        return known if known is not None else _by_name(self, name, self.registrations.task_definition(name))

    def broadcast(self, task: str | Task[Any, Any], /, *args: Any, **kwargs: Any) -> list[Job]:
        """Run a task once on each live worker that could run it: `app.broadcast(reload_prices)`.

        Returns one job per worker. Its handler finds its index and the total in `current_job().broadcast`. With
        options: `reload_prices.options(expires="1m").broadcast()`.
        """
        return self.named(task).broadcast(*args, **kwargs)

    def dag_versions(self, name: str | None = None) -> list[DagView]:
        """Return the newest version of every stored dag, by name; with `name`, all versions of that dag, newest
        first.
        """
        return self.store.dags.list_dags(name)

    def assets(self) -> list[AssetView]:
        """Return the assets that tasks and dags with `produce=` have updated, each with its last update and the job
        of it.
        """
        return self.store.dags.list_assets()

    def connection(self) -> AbstractContextManager[Any]:
        """Open a transaction on the store for the caller; pass it as `tx=` to enqueue jobs in it.

        It commits if the block ends without an exception.
        """
        return self.store.connection()

    broadcast_async = twin(broadcast)
    dag_versions_async = twin(dag_versions)
    assets_async = twin(assets)

    # -- schedules

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store by name: `app.schedules["report"].pause()`."""
        return Schedules(self.client, self._ids.new_ids, self._nudge)

    def schedule(
        self,
        /,
        name: str,
        target: str | Task[Any, Any] | Dag[Any, Any],
        rule: Rule | str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Schedule:
        """Store a schedule: `app.schedule("report", report, cron("0 8 * * MON-FRI"), queue="slow")`.

        Policies (`catchup=`, `overlap=`, ...) and options of its jobs (`queue=`, `retries=`, ...) are passed as
        further arguments. If a schedule of that name exists, it is edited; the edit applies from now on and does not
        fire past occurrences.
        """
        task = self.named(target)
        if task.name in self.dags:
            self.dags[task.name].put()
        kind: TargetKind = "dag" if task.is_dag else "task"
        spec = new_spec(name, task.name, read_rule(rule), task.encode(tuple(args), kwargs or {}), kind, **given)
        return self.schedules.put([spec])[0]

    def put_schedules(self, specs: Sequence[ScheduleSpec]) -> list[Schedule]:
        """Store several schedules, all or none, with the rules of `schedule`."""
        return self.schedules.put(specs)

    def put_calendar(self, name: str, value: Calendar) -> None:
        """Store a calendar under a name, for use by schedules.

        Editing a calendar changes when its schedules fire next.
        """
        self.store.schedules.put_calendar(calendar_name(name), value)
        self._nudge()

    def delete_calendar(self, name: str) -> bool:
        """Delete a calendar; return False if there is none. Raises InvalidInput while a schedule uses it."""
        return self.store.schedules.delete_calendar(name)

    def calendars(self) -> dict[str, Calendar]:
        """Return the calendars of the store by name."""
        return self.store.schedules.calendars()

    def _nudge(self) -> None:
        """Wake the schedulers of this process at once."""
        for nudge in list(self._nudges):
            nudge()

    schedule_async = twin(schedule)
    put_schedules_async = twin(put_schedules)
    put_calendar_async = twin(put_calendar)
    delete_calendar_async = twin(delete_calendar)
    calendars_async = twin(calendars)

    # -- notifications

    @property
    def notifications(self) -> Notifications:
        """Notification rules: `app.notifications.put("night", "failed", to="ops", task="report")`."""
        return Notifications(self.client, self._ids)

    # -- workers

    def queue_loads(self) -> list[QueueLoad]:
        """Return for each queue its waiting jobs, the workers that serve it, and how many workers it needs."""
        reads = self.store.reads
        return queue_loads(reads, reads.queues(), self.registrations.workers())

    @contextmanager
    def worker(
        self,
        *,
        concurrency: int = SLOTS,
        queues: str | list[str] | None = None,
        labels: Sequence[str] = (),
        resources: str | Mapping[str, Any] = "",
        lease: str | Any = None,
        grace: str | Any = GRACE,
    ) -> Iterator[None]:
        """Run a worker inside this process while the block runs. When the block ends, running jobs may finish.

        `labels=["gpu", "region:eu"]` and `resources="mem=8GB,gpu=1"` are what the worker offers to jobs with
        `needs=`. For development, tests and small use: handlers run on threads. Only `tickwork worker` can kill a
        handler that cannot be interrupted.
        """
        options = InProcessOptions(
            slots=concurrency,
            queues=_listed(queues or []),
            labels=_listed(labels),
            resources=resources,
            lease=lease,
            grace=grace,
        )
        with worker_in_process(self, lambda: self.store, self.large_results, options) as nudge:
            self._nudges.append(nudge)
            try:
                yield
            finally:
                self._nudges.remove(nudge)

    def work(self, **options: Any) -> None:
        """Run a worker inside this process until Ctrl-C."""
        with self.worker(**options):
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                return


def _by_name(app: Tickwork, name: str, definition: TaskDefinition | None) -> Enqueues[Any, Any]:
    """Return a task that this app does not define, with the options, limits and parameters of its stored definition."""
    stored = decode_task_limits(None if definition is None else definition.task_limits)
    task_limits = (
        msgspec.structs.replace(stored, queues={**stored.queues, **app.queue_limits}) if app.queue_limits else stored
    )
    signature = StoredSignature(definition)
    version = None if definition is None or definition.version is None else definition.version
    about = (lambda: signature, Options.of_task(name, definition), lambda: task_limits)
    return Enqueues(app, name, *about, version=None if version is None else lambda: version)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
