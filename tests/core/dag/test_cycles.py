"""Cycles are found, each knot once, and spelt out."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.dag.validate import find_cycles

GRAPHS = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh")), min_size=1).map(
    lambda said: {name: sorted(one for one in parents if one in said) for name, parents in said.items()}
)


def has_cycle(parents: dict[str, list[str]]) -> bool:
    """Return whether any step is left after repeatedly removing the steps without parents."""
    left = dict(parents)
    while free := [name for name, waits_for in left.items() if not any(one in left for one in waits_for)]:
        for name in free:
            del left[name]
    return bool(left)


def test_a_cycle_is_spelt_out_in_the_order_of_the_steps() -> None:
    assert find_cycles({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["c"]}) == [["a", "b", "c", "a"]]
    assert find_cycles({"a": ["a"]}) == [["a", "a"]]
    assert find_cycles({"a": [], "b": ["a"], "c": ["a", "b"]}) == []


def test_knots_that_have_nothing_to_do_with_each_other_are_told_one_by_one() -> None:
    parents = {"a": ["b"], "b": ["a"], "c": ["b"], "d": ["c", "e"], "e": ["d"]}
    assert find_cycles(parents) == [["a", "b", "a"], ["d", "e", "d"]]


@given(GRAPHS)
def test_there_is_a_cycle_just_where_steps_are_stuck_and_each_waits_for_the_one_before(
    parents: dict[str, list[str]],
) -> None:
    cycles = find_cycles(parents)
    assert bool(cycles) == has_cycle(parents)
    for cycle in cycles:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        for before, after in pairwise(cycle):
            assert before in parents[after]
    assert len({name for cycle in cycles for name in cycle}) == sum(len(cycle) - 1 for cycle in cycles)


def test_a_chain_is_followed_to_any_depth() -> None:
    names = [f"s{n}" for n in range(20_000)]
    chain = {name: [before] for name, before in zip(names, names[-1:] + names[:-1], strict=True)}
    assert len(find_cycles(chain)[0]) == len(names) + 1
    assert find_cycles({**chain, "s0": []}) == []
