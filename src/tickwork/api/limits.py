"""The methods of `Tickwork` that control flow at run time: gates, limits, and tenant weights."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack

from tickwork.api.async_twins import twin
from tickwork.core.fairness import read_weight
from tickwork.core.job_options import read_option
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.gates import Gate, Kind, read_gate, read_selectors
from tickwork.core.limits.limits import Concurrency, LimitValue, Rate
from tickwork.core.option_parsing import read_text, shown, to_us
from tickwork.core.recurrence.zones import EPOCH
from tickwork.errors import InvalidInput, InvalidOption
from tickwork.store.base import Store
from tickwork.store.limits import GateView, LimitView


class NamedTask(Protocol):
    """A task, or any other object whose `name` is the name of a task."""

    name: str


class GateSelector(TypedDict, total=False):
    """The jobs that a gate applies to. A job must match all of the given fields."""

    task: str | NamedTask | None
    queue: str | None
    tenant: str | None
    collection: str | None
    label: str | None


class GateOptions(GateSelector, total=False):
    """The options of every gate.

    `until` is an instant, or a duration from now; without it a gate stays until `resume` removes it.
    """

    until: str | timedelta | datetime | None
    reason: str | None
    by: str | None


class LimitCalls:
    """The methods of `Tickwork` for flow control."""

    @property
    def store(self) -> Store:
        """The store that holds the gates and limits."""
        raise NotImplementedError

    def pause(self, **order: Unpack[GateOptions]) -> Gate:
        """Hold the selected jobs: `app.pause(task=mail, until="2h", reason="the provider is down")`.

        Running jobs continue; new jobs can be enqueued and wait. Select by `task`, `queue`, `tenant`, `collection` and
        `label`.
        """
        return self._put("pause", order)

    def drop(self, **order: Unpack[GateOptions]) -> Gate:
        """End the selected jobs as dropped instead of starting them: `app.drop(collection="campaign-7")`."""
        return self._put("drop", order)

    def slow(self, *, rate: str | Rate, **order: Unpack[GateOptions]) -> Gate:
        """Limit the rate at which the selected jobs start: `app.slow(tenant="acme", rate="5/s")`."""
        return self._put("slow", {**order, "rate": rate})

    def divert(self, *, to: str, **order: Unpack[GateOptions]) -> Gate:
        """Move the selected jobs to another queue when they would start: `app.divert(label="bulk", to="spare")`."""
        return self._put("divert", {**order, "to": read_option("queue", to)})

    def resume(self, **selects: Unpack[GateSelector]) -> int:
        """Remove the gates, of every kind, that have exactly these selectors; return their number.

        Jobs that the gates held may start.
        """
        return len(self.store.limits.lift_gates(read_selectors(selects)))

    def gates(self) -> list[GateView]:
        """Return the gates in force: who set each, why and when, and how many jobs it held, dropped and diverted."""
        return self.store.limits.list_gates()

    def limits(self) -> list[LimitView]:
        """Return the limits and breakers of the store by name, with their live jobs and the jobs that they hold."""
        return self.store.limits.list_limits()

    def set_limit(self, name: str, rule: Concurrency | Rate | Breaker | None) -> bool:
        """Override a limit, also for jobs that already wait: `app.set_limit("stripe", rate("5/s"))`.

        The override takes precedence over what code declares. A `rule` of None removes the override and restores the
        declared limit. Return False if there is no limit of that name to restore. Raises InvalidOption.
        """
        if rule is not None:
            _check_rule(rule)
        return self.store.limits.set_limit(read_text("the name of a limit", name), rule)

    def limit_of(self, queue: str) -> str:
        """Return the name of the only limit that is declared on a queue.

        Raises InvalidInput if the queue has no limit, or several.
        """
        found = [view.name for view in self.limits() if view.name.startswith(f"queue:{queue}#")]
        if not found:
            raise InvalidInput(
                f"no worker has declared a limit of queue {queue!r}, and jobs are stamped with those as they are "
                f"enqueued. Declare one: app.queue({queue!r}, limits=[concurrency(5)]). To slow it down now: "
                f"tickwork gates slow --queue {queue} --rate 5/s"
            )
        if len(found) > 1:
            raise InvalidInput(
                f"queue {queue!r} has several limits; set one of them: tickwork limits set {found[0]} ..."
            )
        return found[0]

    def set_weight(self, tenant: str, weight: int) -> None:
        """Set the fair-share weight of a tenant, from 1 to 100: its turns for each turn of a tenant of weight 1."""
        self.store.limits.set_weight(read_option("tenant", tenant), read_weight(weight))

    def weights(self) -> dict[str, int]:
        """Return the tenants whose weight is not 1, with their weights."""
        return self.store.limits.weights()

    def _put(self, kind: Kind, given: Mapping[str, Any]) -> Gate:
        """Store a gate. Without `by`, its author is the user and host of this process."""
        now_us = to_us(self.store.now() - EPOCH)
        gate = read_gate(kind, {**given, "by": given.get("by") or _somebody()}, now_us)
        self.store.limits.put_gate(gate)
        return gate

    pause_async = twin(pause)
    drop_async = twin(drop)
    slow_async = twin(slow)
    divert_async = twin(divert)
    resume_async = twin(resume)
    gates_async = twin(gates)
    limits_async = twin(limits)
    set_limit_async = twin(set_limit)
    set_weight_async = twin(set_weight)
    weights_async = twin(weights)


def _check_rule(rule: Any) -> None:
    """Raise InvalidOption if a rule cannot override a limit.

    `name`, `key` and `weight` are stored with jobs when they are enqueued and cannot be changed afterwards.
    """
    if not isinstance(rule, Concurrency | Rate | Breaker):
        raise InvalidOption(f"a limit is set to concurrency(...), rate(...) or None, not {shown(rule)}.")
    said = ["name", "key", "weight"] if isinstance(rule, LimitValue) else ["key"]
    if wrong := next((field for field in said if getattr(rule, field) not in {None, 1}), None):
        raise InvalidOption(f"{wrong} is stamped on jobs as they are enqueued and cannot be set: leave {wrong}= out.")


def _somebody() -> str:
    """Return `user@host` of this process, to show as the author of a gate."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
