"""Gates: which one decides about a job, when they end, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits.gates import (
    GATES,
    SELECTORS,
    Gate,
    JobFacts,
    gate_for,
    read_gate,
    read_selectors,
)
from tickwork.core.limits.limits import rate
from tickwork.errors import InvalidInput, InvalidOption

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
AT_NOW = datetime.fromtimestamp(1_800_000_000, UTC)
MAIL = JobFacts("mail", "slow", tenant="acme", collection="campaign-7", labels=("vip", "region:eu"))

texts = st.sampled_from(["mail", "slow", "acme", "vip"])
selects = st.dictionaries(st.sampled_from(SELECTORS), texts, min_size=1)
ends = st.none() | st.integers(NOW - 2, NOW + 2)


def a_gate(kind: str, until_us: int | None = None, **selected: str) -> Gate:
    extras: dict[str, dict[str, Any]] = {"slow": {"pace": rate("1/s")}, "divert": {"to": "spare"}}
    return Gate(kind=kind, until_us=until_us, **extras.get(kind, {}), **selected)  # type: ignore[arg-type]


gates = st.builds(
    lambda kind, until_us, selected: a_gate(kind, until_us, **selected),
    st.sampled_from(["drop", "pause", "divert", "slow"]),
    ends,
    selects,
)
facts = st.builds(JobFacts, texts, texts, texts, texts, st.lists(texts, max_size=2).map(tuple), st.booleans())


@pytest.mark.parametrize(
    ("selected", "is_held"),
    [
        ({"task": "mail"}, True),
        ({"task": "post"}, False),
        ({"queue": "slow"}, True),
        ({"tenant": "acme"}, True),
        ({"collection": "campaign-7"}, True),
        ({"collection": "campaign-8"}, False),
        ({"label": "vip"}, True),
        ({"label": "eu"}, False),
        ({"task": "mail", "label": "region:eu"}, True),
        ({"task": "mail", "label": "region:us"}, False),
    ],
)
def test_all_that_a_gate_selects_must_match(selected: dict[str, str], is_held: bool) -> None:
    assert (gate_for(MAIL, [a_gate("pause", None, **selected)], NOW) is not None) is is_held


def test_dropping_comes_before_pausing_diverting_and_slowing_down() -> None:
    standing = [a_gate(kind, task="mail") for kind in ("slow", "divert", "pause", "drop")]
    found = []
    while standing and (gate := gate_for(MAIL, standing, NOW)):
        found.append(gate.kind)
        standing.remove(gate)
    assert found == ["drop", "pause", "divert", "slow"]


def test_of_several_pauses_the_one_that_lasts_longest_is_named() -> None:
    short, long = a_gate("pause", NOW + 10, task="mail"), a_gate("pause", NOW + 20, queue="slow")
    endless = a_gate("pause", tenant="acme")
    assert gate_for(MAIL, [short, long], NOW) == long
    assert gate_for(MAIL, [endless, short, long], NOW) == endless


def test_of_several_that_slow_down_the_slowest_decides() -> None:
    quick = Gate(kind="slow", task="mail", pace=rate("10/s"))
    slow = Gate(kind="slow", queue="slow", pace=rate("10/m"))
    assert gate_for(MAIL, [quick, slow], NOW) == slow


def test_of_several_that_divert_the_most_exact_decides_and_no_job_is_diverted_twice() -> None:
    one = Gate(kind="divert", task="mail", to="spare")
    both = Gate(kind="divert", task="mail", tenant="acme", to="acme")
    back = Gate(kind="divert", queue="acme", to="slow")
    assert gate_for(MAIL, [one, both], NOW) == both
    moved = JobFacts("mail", "acme", tenant="acme", diverted=True)
    assert gate_for(moved, [one, both, back], NOW) is None
    assert gate_for(JobFacts("mail", "spare"), [one], NOW) is None


def test_a_gate_ends_by_itself() -> None:
    gate = a_gate("pause", NOW + 1, task="mail")
    assert gate_for(MAIL, [gate], NOW) == gate
    assert gate_for(MAIL, [gate], NOW + 1) is None


@given(facts, st.lists(gates, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_gates_does_not_matter_and_the_strongest_that_matches_decides(
    job: JobFacts, some: list[Gate], rng: Any
) -> None:
    found = gate_for(job, some, NOW)
    shuffled = some[:]
    rng.shuffle(shuffled)
    assert gate_for(job, shuffled, NOW) == found
    matching = [gate for gate in some if (gate.until_us is None or gate.until_us > NOW) and by_hand(gate, job)]
    strongest = next((kind for kind in ("drop", "pause", "divert", "slow") if kind in {g.kind for g in matching}), None)
    assert (None if found is None else found.kind) == strongest
    assert found is None or found in matching


def by_hand(gate: Gate, job: JobFacts) -> bool:
    """Match without the gate's own words."""
    if gate.kind == "divert" and (job.diverted or gate.to == job.queue):
        return False
    return (
        gate.task in (None, job.task)
        and gate.queue in (None, job.queue)
        and gate.tenant in (None, job.tenant)
        and gate.collection in (None, job.collection)
        and (gate.label is None or gate.label in job.labels)
    )


def test_gates_are_read_as_people_write_them() -> None:
    task = SimpleNamespace(name="mail")
    gate = read_gate("pause", {"task": task, "until": "2h", "reason": "the relay is down", "by": "ada"}, NOW)
    assert gate == Gate(kind="pause", task="mail", until_us=NOW + 7200 * SECOND, reason="the relay is down", by="ada")
    assert gate.name == "pause task=mail"
    until = read_gate("drop", {"collection": "c", "until": AT_NOW + timedelta(days=1), "tenant": None}, NOW)
    assert until.until_us == NOW + 86_400 * SECOND
    assert read_gate("slow", {"task": "mail", "rate": "5/s"}, NOW).pace == rate("5/s")
    assert read_gate("divert", {"queue": "slow", "to": "spare"}, NOW).to == "spare"
    assert read_selectors({"task": task, "queue": None}) == {"task": "mail"} == gate.selects


@pytest.mark.parametrize(
    ("kind", "given_options", "message"),
    [
        ("hold", {"task": "mail"}, "there is no gate 'hold'; there are: drop, pause, divert, slow"),
        ("paus", {"task": "mail"}, r"there is no gate 'paus'; did you mean 'pause'\?"),
        ("pause", {}, "a gate says what it is for: task=, queue=, tenant=, collection=, label="),
        ("pause", {"taks": "mail"}, r"a gate has no 'taks'; did you mean 'task'\?"),
        ("pause", {"task": ""}, "task must be a printable text"),
        ("pause", {"task": "mail", "until": "0s"}, "which has passed"),
        ("pause", {"task": "mail", "until": AT_NOW}, "which has passed"),
        ("pause", {"task": "mail", "until": datetime(2030, 1, 1)}, "until is .* without a zone"),  # noqa: DTZ001
        ("pause", {"task": "mail", "until": 5}, "until: 5 of what"),
        ("pause", {"task": "mail", "rate": "5/s"}, "rate= is for slow, which needs it, not for pause"),
        ("slow", {"task": "mail"}, "rate= is for slow, which needs it"),
        ("slow", {"task": "mail", "rate": "fast"}, "'fast' is not a rate"),
        ("divert", {"task": "mail"}, "to= is for divert, which needs it"),
        ("drop", {"task": "mail", "to": "spare"}, "to= is for divert, which needs it, not for drop"),
    ],
)
def test_other_gates_are_refused_with_what_to_write(kind: str, given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_gate(kind, given_options, NOW)


def test_resume_says_what_it_is_for() -> None:
    with pytest.raises(InvalidOption, match="resume says what it is for"):
        read_selectors({"task": None})
    with pytest.raises(InvalidOption, match="resume has no 'until'"):
        read_selectors({"until": "1h"})


@given(gates)
def test_a_gate_comes_back_from_the_store(gate: Gate) -> None:
    assert GATES.decode(GATES.encode(gate)) == gate


def test_the_stored_form_is_this_one() -> None:
    """Rows that were written by this version must be readable by every later one."""
    gate = Gate(kind="slow", task="mail", pace=rate("5/s"), until_us=NOW, by="ada")
    assert GATES.encode(gate) == (
        b'{"version":1,"gate":{"kind":"slow","task":"mail","until_us":1800000000000000,"by":"ada","pace":{"kind":"rate",'
        b'"name":null,"key":null,"weight":1,"count":5,"period":"PT1S","burst":0}}}'
    )
    with pytest.raises(InvalidInput, match="stored gate cannot be read"):
        GATES.decode(b'{"version":1,"gate":{"kind":"pause"}}')
