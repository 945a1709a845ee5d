"""Convert the rows of notifications, hooks and bulk operations; shared by both stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from tickwork.core.bulk_operation import BulkChange, BulkOperation, OperationState
from tickwork.core.hooks import Delivery
from tickwork.core.notify.rule import decode_notification
from tickwork.core.notify.state import decode_watch
from tickwork.store.admin.bulk_operations import OperationStep
from tickwork.store.admin.notifications import NotificationView
from tickwork.store.rows.jobs import storable_text


def notification_view(row: Sequence[Any], instant: Callable[[Any], datetime]) -> NotificationView:
    """Decode the row of a notification and its state."""
    value, watch, version, look_at = row
    return NotificationView(decode_notification(value), decode_watch(watch), version, instant(look_at))


def delivery_values(one: Delivery) -> dict[str, Any]:
    """Return the values of a delivery for its statement, except the hook and whether it is genuine."""
    reason, event = storable_text(one.reason), storable_text(one.event)
    what = {"id": one.id, "outcome": one.outcome, "size": one.size}
    return {**what, "event": event, "job_id": one.job_id, "reason": reason}


def read_delivery(row: Sequence[Any], instant: Callable[[Any], datetime]) -> Delivery:
    """Build a Delivery from its row."""
    id, hook, is_genuine, outcome, event, job_id, reason, size, received_at = row
    return Delivery(
        id=id,
        hook=hook,
        is_genuine=bool(is_genuine),
        outcome=outcome,
        size=size,
        event=event,
        job_id=job_id,
        reason=reason,
        received_at=instant(received_at),
    )


def encode_change(change: BulkChange, now: datetime) -> str:
    """Encode a bulk change as JSON. Its filter is limited to jobs created until `now`: later ones are not affected."""
    until = now if change.which.until is None else min(now, change.which.until)
    return msgspec.json.encode(msgspec.structs.replace(change, which=replace(change.which, until=until))).decode()


def read_operation(row: Sequence[Any], instant: Callable[[Any], datetime]) -> BulkOperation:
    """Decode a row of the `operation_columns` select."""
    id, what, by, state, phase, place, step, looked, changed, error, created_at, ended_at = row
    return BulkOperation(
        id=id,
        change=msgspec.json.decode(what, type=BulkChange),
        by=by,
        state=OperationState(state),
        phase=phase,
        place=place,
        step=step,
        looked=looked,
        changed=changed,
        error=error,
        created_at=instant(created_at),
        ended_at=None if ended_at is None else instant(ended_at),
    )


def operation_step_row(step: OperationStep, **more: Any) -> dict[str, Any]:
    """Return the values of the statement `step_operation`."""
    return {**msgspec.structs.asdict(step), "state": step.state.value, "error": storable_text(step.error), **more}
