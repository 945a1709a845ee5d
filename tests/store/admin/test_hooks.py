"""Hooks in the store, what came in at them, and which files things were declared in."""

import msgspec
import pytest

from tests.store.builders import SECOND, a_delivery, a_hook, an_id
from tickwork.store.admin.hooks import DELIVERIES_KEPT, DeclaredThing
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def test_a_hook_is_given_back_as_it_was_put(store: Store, clock: VirtualClock) -> None:
    hook = a_hook(args='{"n":"${body.n}"}', events=("push",), key="${body.id}", description="é")
    store.hooks.put_hooks([hook])
    made_at = store.now()
    clock.advance(5 * SECOND)
    edited = msgspec.structs.replace(hook, target="other", kind="dag")
    store.hooks.put_hooks([edited, a_hook("another")])
    view = store.hooks.get_hook("pushed")
    assert view is not None
    assert (view.hook, view.created_at, view.edited_at) == (edited, made_at, store.now())
    assert [one.hook.name for one in store.hooks.list_hooks(10)] == ["another", "pushed"]
    assert [one.hook.name for one in store.hooks.list_hooks(10, "another")] == ["pushed"]
    assert store.hooks.get_hook("nowhere") is None


def test_a_hook_is_replaced_only_where_it_is_what_was_seen(store: Store) -> None:
    first, second, third = a_hook(), a_hook(target="second"), a_hook(target="third")
    assert not store.hooks.replace_hook(second, first), "there is none"
    assert store.hooks.replace_hook(first, None)
    assert not store.hooks.replace_hook(second, None), "there is one"
    assert not store.hooks.replace_hook(second, third)
    assert store.hooks.replace_hook(second, first)
    assert [view.hook for view in store.hooks.list_hooks(10)] == [second]


def test_what_came_in_goes_with_its_hook(store: Store) -> None:
    store.hooks.put_hooks([a_hook()])
    store.hooks.record_delivery(a_delivery(job_id=an_id(), event="push\0é"))
    (one,) = store.hooks.deliveries("pushed")
    assert (one.outcome, one.event, one.received_at) == ("accepted", "push\ufffdé", store.now())
    assert store.hooks.delete_hooks(["pushed", "nowhere", "pushed"]) == ["pushed"]
    assert store.hooks.deliveries("pushed") == []
    store.hooks.record_delivery(a_delivery())
    assert store.hooks.deliveries("pushed") == [], "nothing is recorded of a hook that is gone"


def test_the_last_of_what_was_genuine_is_kept_whatever_else_came(store: Store, clock: VirtualClock) -> None:
    store.hooks.put_hooks([a_hook()])
    genuine = [a_delivery() for _ in range(DELIVERIES_KEPT + 3)]
    for one in genuine:
        store.hooks.record_delivery(one)
    for _ in range(DELIVERIES_KEPT + 3):
        clock.advance(2 * SECOND)
        store.hooks.record_delivery(a_delivery(is_genuine=False, outcome="refused"))
    kept = store.hooks.deliveries("pushed")
    assert [one.id for one in kept if one.is_genuine] == [one.id for one in reversed(genuine)][:DELIVERIES_KEPT]
    assert len([one for one in kept if not one.is_genuine]) == DELIVERIES_KEPT


def test_of_what_is_not_genuine_one_a_second_is_recorded(store: Store, clock: VirtualClock) -> None:
    store.hooks.put_hooks([a_hook()])
    for _ in range(5):
        store.hooks.record_delivery(a_delivery(is_genuine=False, outcome="refused"))
    assert len(store.hooks.deliveries("pushed")) == 1
    clock.advance(2 * SECOND)
    store.hooks.record_delivery(a_delivery(is_genuine=False, outcome="refused"))
    store.hooks.record_delivery(a_delivery())
    assert len(store.hooks.deliveries("pushed")) == 3


def test_a_delivery_that_is_recorded_twice_is_there_once(store: Store) -> None:
    store.hooks.put_hooks([a_hook()])
    one = a_delivery()
    store.hooks.record_delivery(one)
    store.hooks.record_delivery(one)
    assert len(store.hooks.deliveries("pushed")) == 1


def test_a_thing_is_declared_by_the_source_that_did_so_last(store: Store) -> None:
    a, b, c = DeclaredThing("dag", "a"), DeclaredThing("schedule", "b"), DeclaredThing("schedule", "c")
    store.hooks.mark_declared("one.yaml", [c, a, b, a])
    store.hooks.mark_declared("two.yaml", [c])
    assert (store.hooks.declared_by("one.yaml"), store.hooks.declared_by("two.yaml")) == ([a, b], [c])
    store.hooks.forget_declared([b, c])
    assert (store.hooks.declared_by("one.yaml"), store.hooks.declared_by("two.yaml")) == ([a], [])


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä", "a b", "x" * 101])
def test_the_name_of_a_hook_is_a_part_of_its_address(name: str) -> None:
    with pytest.raises(ValueError, match="address"):
        a_hook(name)
