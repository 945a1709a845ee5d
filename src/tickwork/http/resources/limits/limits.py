"""Limits, gates and tenants over REST: what holds jobs back, and how to change it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta

from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.gates import SELECTORS, Gate, Kind, read_until
from tickwork.core.limits.limits import Concurrency, Rate, concurrency, rate
from tickwork.core.option_parsing import to_us
from tickwork.core.recurrence.zones import EPOCH
from tickwork.http.framework.params import Text
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.limits import GateView, LimitKeyView, LimitView, Rule

limits, gates, tenants = Routes("limits"), Routes("gates"), Routes("tenants")
KEYS_LIMIT = 100


class LimitRule(Struct):
    """The rule of a limit: a `concurrency`, or a `rate` with its `burst`. `said` is the same in words."""

    kind: Literal["concurrency", "rate", "breaker"]
    said: str
    key: str | None
    concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None


class LimitBody(Struct):
    """A limit. `declared` is the rule in code; `override` was set at run time, and takes precedence.

    `live` is the weight of the jobs that run under it, over all keys, and `held` the number of jobs that wait for it.
    `open_keys` is the number of keys for which a breaker is open or half-open, and `open_until` when the first of
    them tries a job.
    """

    name: str
    rule: LimitRule | None
    declared: LimitRule | None
    override: LimitRule | None
    live: int
    held: int
    open_keys: int = 0
    open_until: datetime | None = None


class LimitList(ListBody[LimitBody]):
    """All limits and breakers, by name."""


class LimitKeyBody(Struct):
    """One key of a limit. `held` is counted up to 1,000. `phase` is the phase of a breaker.

    `opens_at` is when the next job may start, if that is known; null if it has to wait for a job to end.
    """

    key: str
    live: int
    held: int
    opens_at: datetime | None
    phase: Literal["closed", "open", "half-open"] | None


class LimitKeyList(ListBody[LimitKeyBody]):
    """The keys of a limit with waiting or running jobs, most waiting jobs first.

    `is_partial`: there may be more of them.
    """

    is_partial: bool


class RuleBody(Struct):
    """The rule to set: a `concurrency`, or a `rate` such as "10/s" with an optional `burst`."""

    concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None


class SelectBody(Struct):
    """The jobs to which a gate applies; a job must match all of the given selectors."""

    task: Text | None = None
    queue: Text | None = None
    tenant: Text | None = None
    collection: Text | None = None
    label: Text | None = None


class NewGateBody(SelectBody):
    """A gate. `until`: an instant, or a duration such as "2h"; without it, the gate stays until it is removed."""

    until: Text | None = None
    reason: Text | None = None


class SlowBody(NewGateBody, kw_only=True):
    """A gate that limits the rate at which jobs start, such as "5/s"."""

    rate: str


class DivertBody(NewGateBody, kw_only=True):
    """A gate that moves jobs to another queue."""

    to: Text


class GateBody(Struct):
    """A gate in force, the number of jobs that it holds, and the number that it has dropped or diverted so far."""

    name: str
    kind: Kind
    task: str | None
    queue: str | None
    tenant: str | None
    collection: str | None
    label: str | None
    until: datetime | None
    reason: str
    by: str
    rate: str | None
    to: str | None
    since: datetime | None = None
    held: int = 0
    passed_on: int = 0


class GateList(ListBody[GateBody]):
    """The gates in force."""


class ResumedBody(Struct):
    """The number of gates that were removed."""

    lifted: int


class TenantBody(Struct):
    """A tenant. `weight` is its number of turns for each turn of a tenant of weight 1."""

    name: str
    weight: int


class TenantList(ListBody[TenantBody]):
    """The tenants whose weight is not 1."""


class WeightBody(Struct):
    """The weight, from 1 to 100."""

    weight: Annotated[int, Meta(ge=1, le=100)]


# -- limits


@limits.get("/limits", Scope.READ)
def list_limits(call: Call) -> LimitList:
    """List limits and breakers, with the running jobs under each and the jobs that it holds."""
    return LimitList([_standing(call, view) for view in call.app.limits()], None)


@limits.get("/limits/{name}/keys", Scope.READ)
def list_limit_keys(call: Call, name: str) -> LimitKeyList:
    """List the keys of a limit with waiting or running jobs, most waiting jobs first; at most 100."""
    view = required(_limit(call, name), Problem(404, "not-found", f"there is no limit {name!r}."))
    found = call.app.store.limits.limit_keys(name, KEYS_LIMIT)
    now_us = to_us(call.app.store.now() - EPOCH)
    return LimitKeyList([_key_body(view, one, now_us) for one in found], None, len(found) == KEYS_LIMIT)


@limits.put("/limits/{name}", Scope.OPERATE)
def set_limit(call: Call, name: str, body: RuleBody) -> LimitBody:
    """Override the rule of a limit from now on, also for waiting jobs."""
    return limit_set(call, name, body)


@limits.delete("/limits/{name}", Scope.OPERATE)
def reset_limit(call: Call, name: str) -> None:
    """Remove the override of a limit, so that the rule in code applies again."""
    before = _limit(call, name)
    if before is None or not call.app.set_limit(name, None):
        raise Problem(404, "not-found", f"there is no limit {name!r}.")
    call.changed(f"limit:{name}", limit_body(before), _shown_limit(call, name))


def limit_set(call: Call, name: str, body: RuleBody) -> LimitBody:
    """Override the rule of a limit, and add the change to the audit log. Raises Problem and InvalidOption."""
    if (body.concurrency is None) == (body.rate is None) or (body.burst is not None and body.rate is None):
        raise Problem(422, "invalid", "say what it is set to: a `concurrency`, or a `rate` and its `burst`.")
    rule = concurrency(body.concurrency) if body.concurrency is not None else rate(body.rate or "", burst=body.burst)
    before = _shown_limit(call, name)
    call.app.set_limit(name, rule)
    after = _shown_limit(call, name)
    call.changed(f"limit:{name}", before, after)
    if after is None:
        raise Problem(409, "wrong-state", f"the limit {name!r} was reset by another caller just now.")
    return after


def _limit(call: Call, name: str) -> LimitView | None:
    return next((view for view in call.app.limits() if view.name == name), None)


def _shown_limit(call: Call, name: str) -> LimitBody | None:
    view = _limit(call, name)
    return None if view is None else limit_body(view)


def _standing(call: Call, view: LimitView) -> LimitBody:
    """Return the body of a limit; for a breaker, with the number of its open keys."""
    shown = limit_body(view)
    if isinstance(view.rule, Breaker):
        keys = call.app.store.limits.limit_keys(view.name, KEYS_LIMIT)
        untils = [until for one in keys if (until := one.breaker.open_until_us) is not None]
        shown.open_keys = len(untils)
        shown.open_until = _instant(min(untils, default=None))
    return shown


def _key_body(view: LimitView, one: LimitKeyView, now_us: int) -> LimitKeyBody:
    if not isinstance(view.rule, Breaker):
        return LimitKeyBody(one.key, one.live, one.held, one.opens_at, None)
    return LimitKeyBody(one.key, one.live, one.held, _instant(one.breaker.open_until_us), one.breaker.phase(now_us))


def _instant(us: int | None) -> datetime | None:
    return None if us is None else EPOCH + timedelta(microseconds=us)


def limit_body(view: LimitView) -> LimitBody:
    return LimitBody(
        name=view.name,
        rule=_rule(view.rule),
        declared=_rule(view.declared),
        override=_rule(view.override),
        live=view.live,
        held=view.held,
    )


def _rule(rule: Rule | None) -> LimitRule | None:
    match rule:
        case None:
            return None
        case Concurrency():
            return LimitRule("concurrency", rule.said, rule.key, concurrency=rule.capacity)
        case Rate():
            return LimitRule("rate", rule.said, rule.key, rate=rule.said.partition(",")[0], burst=rule.burst)
        case Breaker():
            return LimitRule("breaker", rule.said, rule.key)


# -- gates


@gates.get("/gates", Scope.READ)
def list_gates(call: Call) -> GateList:
    """List the gates in force: their authors and reasons, and how many jobs each holds and has dropped or diverted."""
    return GateList([_view(one) for one in call.app.gates()], None)


@gates.post("/gates/pause", Scope.OPERATE)
def pause_jobs(call: Call, body: NewGateBody) -> GateBody:
    """Pause the selected jobs: start no more of them. Running jobs continue; new jobs wait."""
    return put_gate(call, "pause", _said(body))


@gates.post("/gates/drop", Scope.OPERATE)
def drop_jobs(call: Call, body: NewGateBody) -> GateBody:
    """End the selected jobs as dropped instead of starting them."""
    return put_gate(call, "drop", _said(body))


@gates.post("/gates/slow", Scope.OPERATE)
def slow_jobs(call: Call, body: SlowBody) -> GateBody:
    """Limit the rate at which the selected jobs start."""
    return put_gate(call, "slow", _said(body))


@gates.post("/gates/divert", Scope.OPERATE)
def divert_jobs(call: Call, body: DivertBody) -> GateBody:
    """Move the selected jobs to another queue when they would start."""
    return put_gate(call, "divert", _said(body))


@gates.post("/gates/resume", Scope.OPERATE)
def resume_jobs(call: Call, body: SelectBody) -> ResumedBody:
    """Remove the gates, of every kind, with exactly these selectors; held jobs may start. 409 if there are none."""
    selects = {name: value for name in SELECTORS if (value := getattr(body, name)) is not None}
    before = [gate_body(one.gate) for one in call.app.gates() if one.gate.selects == selects]
    lifted = call.app.resume(**selects)
    if not lifted:
        raise Problem(409, "wrong-state", "no gate is for exactly this. Nothing was changed.")
    call.changed("gates", before={"gates": before}, after={"gates": []})
    return ResumedBody(lifted)


def put_gate(call: Call, kind: Kind, said: Mapping[str, Any]) -> GateBody:
    """Set a gate in the name of the caller, and add the change to the audit log."""
    given = {**said, "until": read_until(said.get("until")), "by": call.who.name}
    there = {view.gate.name: gate_body(view.gate) for view in call.app.gates()}
    gate: Gate = getattr(call.app, kind)(**given)
    shown = gate_body(gate)
    call.changed(f"gate:{gate.name}", there.get(gate.name), shown)
    return shown


def _said(body: NewGateBody) -> dict[str, Any]:
    return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not None}


def gate_body(gate: Gate) -> GateBody:
    return GateBody(
        name=gate.name,
        kind=gate.kind,
        **{name: getattr(gate, name) for name in SELECTORS},
        until=gate.until,
        reason=gate.reason,
        by=gate.by,
        rate=None if gate.pace is None else gate.pace.said,
        to=gate.to,
    )


def _view(view: GateView) -> GateBody:
    shown = gate_body(view.gate)
    shown.since, shown.held, shown.passed_on = view.since, view.held, view.passed_on
    return shown


# -- tenants


@tenants.get("/tenants", Scope.READ)
def list_tenants(call: Call) -> TenantList:
    """List the tenants whose weight is not 1."""
    return TenantList([TenantBody(name, weight) for name, weight in call.app.weights().items()], None)


@tenants.put("/tenants/{name}", Scope.OPERATE)
def set_tenant(call: Call, name: str, body: WeightBody) -> TenantBody:
    """Set the weight of a tenant: its number of turns for each turn of a tenant of weight 1."""
    before = call.app.weights().get(name, 1)
    call.app.set_weight(name, body.weight)
    call.changed(f"tenant:{name}", {"weight": before}, {"weight": body.weight})
    return TenantBody(name, body.weight)
