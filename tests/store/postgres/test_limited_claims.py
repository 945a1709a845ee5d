"""Rounds of guarded claims on PostgreSQL that run at once: one does not spend itself on what another has taken."""

from collections.abc import Sequence

import pytest

from tests.store.builders import a_job, claim, claim_one, register, succeeded
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency
from tickwork.store.claim.types import Candidate, PickRequest, Snapshot
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.claim.limited_round import PostgresClaimTx


def with_key(key: str) -> NewJob:
    return a_job(job_limits=JobLimits(uses=(LimitUse("one", key, 1),)))


def test_a_round_picks_no_job_of_a_key_that_another_round_took_since_it_looked(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rounds that meet pick the next jobs of the same keys, start none of them, and are in each other's way."""
    worker, other = register(postgres), register(postgres)
    postgres.limits.declare_limits({"one": concurrency(1, key="key")})
    postgres.insert_jobs([with_key("a"), with_key("b")])
    first = claim(postgres, 2, worker)
    of_a, _, of_b = postgres.insert_jobs([with_key("a"), with_key("a"), with_key("b")])
    assert claim(postgres, 3, worker) == [], "the limit holds them"
    postgres.finish_attempts([succeeded(one) for one in first])

    look, pick = PostgresClaimTx.snapshot, PostgresClaimTx.pick
    picked: list[JobId] = []

    def look_and_be_overtaken(claim_tx: PostgresClaimTx) -> Snapshot:
        seen = look(claim_tx)
        if claim_tx.worker == worker:
            monkeypatch.setattr(PostgresClaimTx, "snapshot", look)
            assert claim_one(postgres, other).job_id == of_a
        return seen

    def note_picked(claim_tx: PostgresClaimTx, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        candidates = pick(claim_tx, pick_requests)
        if claim_tx.worker == worker:
            picked.extend(one.job_id for one in candidates)
        return candidates

    monkeypatch.setattr(PostgresClaimTx, "snapshot", look_and_be_overtaken)
    monkeypatch.setattr(PostgresClaimTx, "pick", note_picked)
    assert claim_one(postgres, worker).job_id == of_b
    assert picked == [of_b]
