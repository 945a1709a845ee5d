"""Open limit keys for the jobs that they hold, after a commit that has freed capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tickwork.core.limits.job_limits import LimitKey, limit_key_text
from tickwork.store.postgres.holds import ReleasedHolds
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.jobs import limit_keys_of


class LimitOpenings:
    """Opens limit keys in transactions of its own. Inside a shared transaction, it does so after the commit."""

    def __init__(self, transactions: PostgresTransactions, released_holds: ReleasedHolds) -> None:
        self._transactions = transactions
        self._released_holds = released_holds

    def open_freed(self, names: Sequence[str]) -> bool:
        """Open limit keys that ended jobs have freed; return whether any of them holds jobs."""
        return self.open_after_round({}, names)

    def open_after_round(self, full: Mapping[LimitKey, int], freed: Sequence[str]) -> bool:
        """Open keys after a round, and return whether jobs are held under the keys that its own finishes `freed`.

        Keys of `full`, with their live weight as the round saw it, are opened if that has dropped meanwhile: a refusal
        and a finish can race, and this is the refusal's second look.
        """
        wanted: list[tuple[str, dict[str, Any]]] = []
        if full:
            names = [limit_key_text(limit_key) for limit_key in full]
            live, afters = array(full.values()), array(self._released_holds.after(names))
            wanted.append(("open_emptier", {"names": text_array(names), "live": live, "afters": afters}))
        if freed:
            wanted.append(("open_freed", {"names": text_array(freed)}))
        if not wanted:
            return False
        if self._transactions.is_shared:
            self._transactions.after_commit(partial(self.open_after_round, full, freed))
            return False
        *_, opened = self._transactions.run_together(*wanted)
        if freed and opened:
            self._transactions.notifier.call()
        return bool(freed and opened)

    def leave_sequences(self, texts: Iterable[str | None]) -> None:
        """Open the sequences that waiting jobs with these limits have left, so that their next jobs may start."""
        if names := [name for text in texts for name in limit_keys_of(text)]:
            self.open_freed(names)
