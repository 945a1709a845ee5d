"""The decorators of an app, `@app.task` and `@app.dag`: read their arguments, and register tasks, dags and limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import msgspec

from tickwork.api.schedule_rules import Rule, read_rule
from tickwork.core.arguments.type_hints import check_batch_handler, parameter_names
from tickwork.core.job_options import Options, read_option, task_name
from tickwork.core.limits.limits import AnyLimit, Bound, Shared, read_limits
from tickwork.core.limits.task_limits import NO_LIMITS, bare, read_task_limits, split_limits
from tickwork.core.schedule.spec import ScheduleSpec, TargetKind, new_spec, split_policies
from tickwork.core.workers.batch import Batch
from tickwork.dag import Dag
from tickwork.dag_builder.steps import NO_STEP, asset_names
from tickwork.errors import InvalidArguments, InvalidOption
from tickwork.task import BatchTask, Enqueues, Task, TaskRegistry

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")
Made = TypeVar("Made", bound=Task[Any, Any] | Dag[Any, Any])
POOLS = ("thread", "async", "process")


class AppRegistry(TaskRegistry):
    """The tasks and the dags of an app, by name, with the schedules and limits that their decorators declare."""

    def __init__(self) -> None:
        super().__init__()
        self.dags: dict[str, Dag[Any, Any]] = {}
        self._declared: dict[str, ScheduleSpec] = {}
        self._bounds: dict[str, tuple[str, Bound]] = {}  # limits by name, with the owner that declared them last

    @overload
    def task(self, function: Callable[Arguments, Result], /) -> Task[Arguments, Result]: ...

    @overload
    def task(
        self, *, batch: Batch, name: str | None = None, pool: str | None = None, **options: Any
    ) -> Callable[[Callable[[list[Item]], Result]], BatchTask[Item, Result]]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        pool: str | None = None,
        transactional: bool = False,
        schedule: Rule | str | None = None,
        **options: Any,
    ) -> Callable[[Callable[Arguments, Result]], Task[Arguments, Result]]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        pool: str | None = None,
        transactional: bool = False,
        batch: Batch | None = None,
        schedule: Rule | str | None = None,
        **options: Any,
    ) -> Any:
        """Make a function a task: `@app.task` or `@app.task(retries=5, queue="mail")`.

        `pool` is where the function runs: "thread" (the default for plain functions), "async" (the default for async
        functions) or "process" (for CPU-bound functions: a separate process). `transactional` passes a database
        connection as the first argument; what the function writes with it commits together with the end of the job.
        `schedule` is a rule that starts the task without arguments; policies are further arguments:
        `@app.task(schedule=cron("0 2 * * *"), catchup="all", overlap="queue")`.

        `batch=batch(max=100, wait="500ms")` calls the function with a list of the arguments of up to `max` jobs: its
        only parameter is `items: list[T]`, and `enqueue(item)` takes one T. The function returns None, or a list with
        the result of each job in the same order, in which an exception is the failure of that job; an exception that
        it raises fails all jobs.

        Limits: `limits=[concurrency(2, key="tenant"), rate("10/s")]`, `limit="stripe"` (a limit declared elsewhere,
        or several), `sequence="account"` (one job at a time for each account, in order; with `sequence("account",
        on_retry="pass")` other jobs may pass a job that waits for a retry), `breaker=breaker()`. Placement:
        `sticky="account"` (jobs of one account on the same worker, where possible). Merging of calls:
        `debounce=debounce("5s", key="account")`, `throttle=throttle("1m")`. The last call of a debounced task always
        gets a job, even if it comes while the job of an earlier call runs. `produce="asset"` names the asset that a
        success updates.
        """

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            policies, rest = split_policies(options)
            paused = rest.pop("paused", None)
            limits, rest = split_limits(rest)
            step = NO_STEP.updated({"produce": rest.pop("produce", None)})
            given = Options().updated(rest)
            called = task_name(function.__name__ if name is None else name)
            declared = _declared_spec(called, schedule, {**policies, "paused": paused})
            task_limits = NO_LIMITS
            if limits:
                task_limits = read_task_limits(called, parameter_names(function, skip_first=transactional), limits)
                given.refuse_beside(called, task_limits.merging)
                self._own_limits(f"task {called!r}", task_limits.limits)
            where = _pool(function, pool, transactional)
            if batch is not None:
                _check_batch(function, batch, where, transactional)
            kind: Any = Task if batch is None else BatchTask
            made: Task[Any, Any] = kind(
                self,
                function,
                called,
                given,
                task_limits,
                pool=where,
                transactional=transactional,
                batch=batch,
                step=step,
            )
            self._add(made, self.tasks)
            self._declare(called, declared)
            return made

        return register if function is None else register(function)

    @overload
    def dag(self, function: Callable[Arguments, Result], /) -> Dag[Arguments, Result]: ...

    @overload
    def dag(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        on: Any = None,
        produce: Any = None,
        schedule: Rule | str | None = None,
        **options: Any,
    ) -> Callable[[Callable[Arguments, Result]], Dag[Arguments, Result]]: ...

    def dag(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        on: Any = None,
        produce: Any = None,
        schedule: Rule | str | None = None,
        **options: Any,
    ) -> Any:
        """Make a function a dag: `@app.dag` or `@app.dag(name="nightly", priority="low")`.

        The function defines the steps and their order: each task that it calls adds a step. It is called when the dag
        is first used, not by the decorator. Options and limits apply to the runs of the dag, as the options of a task
        apply to its jobs; a run is not retried unless `retries=` is given. `description` is by default the first line
        of the docstring. `schedule` is a rule that starts runs, with policies as further arguments, as for a task.
        `on="asset"` starts a run when the asset was updated, `on=["a", "b"]` when any of several was, `on=[("a",
        "b")]` when both were. `produce="asset"` names the asset that a run updates.
        """

        def register(function: Callable[..., Any]) -> Dag[Any, Any]:
            if isinstance(function, Enqueues):
                raise InvalidOption(f"{function.name!r} is a task or a dag already. A dag is made of a plain function.")
            policies, rest = split_policies(options)
            paused = rest.pop("paused", None)
            limits, rest = split_limits(rest)
            called = task_name(function.__name__ if name is None else name)
            given = Options().updated({"retries": 0, **rest})
            task_limits = NO_LIMITS
            if "sticky" in limits:
                raise InvalidOption(f"a run of dag {called!r} runs nowhere itself: say sticky= of the tasks in it.")
            if limits:
                task_limits = read_task_limits(called, parameter_names(function), limits)
                given.refuse_beside(called, task_limits.merging)
                self._own_limits(f"dag {called!r}", task_limits.limits)
            made: Dag[Any, Any] = Dag(
                self,
                function,
                called,
                given,
                task_limits,
                description=_first_line(function) if description is None else description,
                on=_on(on),
                produce=NO_STEP.updated({"produce": produce}).produce,
            )
            spec = _declared_spec(called, schedule, {**policies, "paused": paused}, "dag")
            self._add(made, self.dags)
            self._declare(called, spec)
            return made

        return register if function is None else register(function)

    def queue(self, name: str, *, limits: Sequence[Bound | str]) -> None:
        """Declare limits for all jobs that this app enqueues into a queue: `app.queue("mail",
        limits=[concurrency(5)])`.

        As soon as a worker has reported the limits to the store, they apply to all jobs of its tasks, whichever
        program enqueues them. Raises InvalidOption.
        """
        queue = read_option("queue", name)
        read = read_limits(f"queue:{queue}", limits)
        if self.queue_limits.get(queue, read) != read:
            raise InvalidOption(f"queue {queue!r} has other limits already. Declare all of them in one place.")
        self._own_limits(f"queue {queue!r}", read)
        self.queue_limits = {**self.queue_limits, queue: read}
        for task in self.tasks.values():
            task.forget_limits()
        for dag in self.dags.values():
            dag.forget_limits()

    def _own_limits(self, owner: str, limits: Sequence[AnyLimit]) -> None:
        """Record the limits that a task, dag or queue declares.

        Raises InvalidOption if another owner declares a different limit of the same name.
        """
        found = {limit.name or "": bare(limit) for limit in limits if not isinstance(limit, Shared)}
        for name, bound in found.items():
            other, known = self._bounds.get(name, (owner, bound))
            if other != owner and known != bound:
                raise InvalidOption(
                    f"{other} and {owner} declare the limit {name!r}, and not the same one. Declare it once, and name "
                    f'it elsewhere: limit="{name}".'
                )
        self._bounds.update({name: (owner, bound) for name, bound in found.items()})

    def _add(self, made: Made, registered: dict[str, Made]) -> None:
        """Register a task or dag. Raises InvalidOption if another function is registered under its name."""
        known = self.tasks.get(made.name) or self.dags.get(made.name)
        if known is not None and _origin_of(known.function) != _origin_of(made.function):
            both = "tasks or dags" if made.name in self.dags or made.is_dag else "tasks"
            raise InvalidOption(
                f"two {both} are named {made.name!r}: {_origin_of(known.function)} and "
                f'{_origin_of(made.function)}. Give one of them another: @app.task(name="...").'
            )
        registered[made.name] = made

    def _declare(self, name: str, spec: ScheduleSpec | None) -> None:
        """Record the schedule that a decorator declares for a task or dag; None if it declares no schedule."""
        self._declared.pop(name, None)
        if spec is not None:
            self._declared[name] = spec

    def declared_schedules(self) -> list[ScheduleSpec]:
        """Return the schedules that decorators declare. Raises InvalidArguments for a task that requires arguments.

        Parameters are read here and not by the decorator: by now, every type that their hints name is defined.
        """
        return [msgspec.structs.replace(spec, args=self._no_arguments(name)) for name, spec in self._declared.items()]

    def _no_arguments(self, name: str) -> str:
        """Return the arguments of a job that a schedule makes: the defaults of the parameters.

        Raises InvalidArguments.
        """
        try:
            return (self.tasks.get(name) or self.dags[name]).encode((), {}).decode()
        except InvalidArguments as error:
            kind = "task" if name in self.tasks else "dag"
            raise InvalidArguments(
                f"{kind} {name!r} has a schedule, which gives it no arguments: {error} "
                f"Give its parameters defaults, or make the schedule with app.schedule({name!r}, ..., kwargs={{...}})."
            ) from None


def _declared_spec(
    name: str, schedule: Rule | str | None, policies: dict[str, Any], kind: TargetKind = "task"
) -> ScheduleSpec | None:
    """Return the schedule that a decorator declares; None if it declares none.

    Raises InvalidOption for policies without a schedule.
    """
    if schedule is not None:
        return new_spec(name, name, read_rule(schedule), b"{}", kind, **policies)
    given = [policy for policy, value in policies.items() if value is not None]
    if given:
        raise InvalidOption(f"{given[0]} is a policy of a schedule: give schedule= as well.")
    return None


def _pool(function: Callable[..., Any], pool: str | None, transactional: bool) -> str:
    """Return the pool in which a function runs. Raises InvalidOption if it cannot run there."""
    is_async = inspect.iscoroutinefunction(function)
    if is_async and transactional:
        raise InvalidOption(f"{function.__qualname__} is an async function, which cannot be transactional.")
    if pool is None:
        return "async" if is_async else "thread"
    if pool not in POOLS:
        raise InvalidOption(f"pool must be one of {', '.join(POOLS)}, not {pool!r}.")
    if is_async != (pool == "async"):
        kind = "an async function" if is_async else "a plain function"
        raise InvalidOption(f"{function.__qualname__} is {kind}, which cannot run in the pool {pool!r}.")
    return pool


def _check_batch(function: Callable[..., Any], batch: Any, pool: str, transactional: bool) -> None:
    """Raise InvalidOption for a handler that cannot take the arguments of many jobs in one call."""
    if not isinstance(batch, Batch):
        raise InvalidOption(f'batch must be made with batch(max=100, wait="500ms"), not {batch!r}.')
    name = function.__qualname__
    if transactional:
        raise InvalidOption(
            f"{name} cannot be transactional and take batches: one transaction commits for all jobs of a call or for "
            f"none, and each of them has an outcome of its own."
        )
    if pool == "process":
        raise InvalidOption(f"{name} takes batches, which run on threads or an event loop, not in the pool 'process'.")
    check_batch_handler(function)


def _origin_of(function: Callable[..., Any]) -> str:
    """Return the file and line where a function is defined."""
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _on(value: Any) -> tuple[tuple[str, ...], ...]:
    """Parse the option `on`; return, for each entry, the assets that together start a run. Raises InvalidOption."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (asset_names("on", value),)
    if not isinstance(value, list):
        raise InvalidOption('on is an asset, a list of any of which one starts a run, or of ("all", "of") them.')
    return tuple(asset_names("on", one) for one in value)
