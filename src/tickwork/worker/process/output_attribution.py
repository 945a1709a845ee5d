"""Whose output it is that came through a child's descriptors: bytes in, messages with text out.

Output belongs to the attempt that ran when it was read. Where several ran, each of them gets it, marked as shared.
The number of a chunk that a child sends leaves room behind it for what came through the descriptors before the next.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tickwork.core.arguments.payload import storable
from tickwork.worker.ipc.protocol import Wrote
from tickwork.worker.ipc.shared_memory import RunningAttempt, UnsentText
from tickwork.worker.process.console import PassedOnOutput
from tickwork.worker.process.output_pipes import STREAMS, OutputPiece
from tickwork.worker.run.capture import STRIDE, within_limit
from tickwork.worker.run.mask import SecretMask

SECRETS = 256  # the latest that attempts of a child were given are masked


@dataclass(slots=True)
class _AttemptLog:
    """What is known of one attempt's log."""

    sent: int = 0  # number of the last chunk that the child sent
    size: int = 0
    behind: dict[int, int] = field(default_factory=dict)  # how many pieces came after a chunk


@dataclass(slots=True)
class _StreamState:
    decoder: object = field(default_factory=lambda: getincrementaldecoder("utf-8")("replace"))
    owners: tuple[RunningAttempt, ...] = ()
    shared: bool = False
    held: str = ""  # the end of what was read: perhaps the beginning of a secret

    @property
    def sole_owner(self) -> str | None:
        """The job that alone can have written what was read last."""
        return self.owners[0].job_id if len(self.owners) == 1 and not self.shared else None

    def decode(self, data: bytes, final: bool = False) -> str:
        return str(self.decoder.decode(data, final))  # type: ignore[attr-defined]


class OutputAttribution:
    """The output of one child. `console` shows it to whoever looks at the worker."""

    def __init__(self, console: PassedOnOutput) -> None:
        self._console = console
        self._streams = {stream: _StreamState() for stream in STREAMS}
        self._logs: dict[tuple[str, int], _AttemptLog] = {}
        self._secrets: dict[str, None] = {}
        self._always: tuple[str, ...] = ()
        self._mask: SecretMask | None = None

    def always_hide(self, values: Sequence[str]) -> None:
        """Write *** for some values, however many others are hidden later."""
        self._always = tuple(values)
        self._renew_mask()

    def _renew_mask(self) -> None:
        values = (*self._always, *self._secrets)
        self._mask = SecretMask(values) if values else None

    def hide(self, value: str) -> None:
        """Write *** for a value from now on."""
        is_known = value in self._secrets
        self._secrets.pop(value, None)
        self._secrets[value] = None
        if len(self._secrets) > SECRETS:
            del self._secrets[next(iter(self._secrets))]
            self._renew_mask()
        elif self._mask is None:
            self._mask = SecretMask([value])
        elif not is_known:
            self._mask.hide(value)

    def sent(self, chunk: Wrote) -> None:
        """A child has sent a chunk by itself."""
        log = self._log(chunk.job_id, chunk.claim)
        log.sent = max(log.sent, chunk.seq // STRIDE)
        log.size += len(chunk.text)

    def forget(self, job_id: str, claim: int) -> None:
        self._logs.pop((job_id, claim), None)

    def credit(self, pieces: Iterable[OutputPiece]) -> Iterator[Wrote]:
        """The text of some pieces, as chunks of the attempts whose it is."""
        for piece in pieces:
            stream = self._streams[piece.stream]
            text = stream.decode(piece.data)
            if stream.held and stream.owners != piece.owners and not self._goes_on(stream, piece.owners, text):
                yield from self._flush(piece.stream)
            stream.owners, stream.shared = piece.owners, piece.others or len(piece.owners) > 1
            text = stream.held + text
            if self._mask is not None:
                text = self._mask.text(text)
                begun = self._mask.begun(text)
                text, stream.held = text[: len(text) - begun], text[len(text) - begun :]
            self._console.write(piece.stream, text, stream.sole_owner)
            yield from self._chunks(stream.owners, stream.shared, text)

    def _goes_on(self, stream: _StreamState, owners: tuple[RunningAttempt, ...], text: str) -> bool:
        """Whether a secret that an attempt began to write, as it seems, goes on where others run beside it."""
        if self._mask is None or {one.key for one in stream.owners}.isdisjoint(one.key for one in owners):
            return False
        whole = stream.held + text
        return not self._mask.text(whole).startswith(stream.held) or self._mask.begun(whole) > len(text)

    def flush(self, ended: Iterable[tuple[str, int]] | None = None) -> Iterator[Wrote]:
        """What was held back for attempts that have ended; None: for all.

        Where others go on, what one of them may have begun to write is held back for these.
        """
        gone = None if ended is None else set(ended)
        for number, stream in self._streams.items():
            left = () if gone is None else tuple(one for one in stream.owners if one.key not in gone)
            if not left:
                yield from self._flush(number)
            elif len(left) < len(stream.owners):
                stream.owners, going = left, tuple(one for one in stream.owners if one not in left)
                yield from self._chunks(going, stream.shared, stream.held)
        self._console.end()

    def _flush(self, number: int) -> Iterator[Wrote]:
        stream = self._streams[number]
        if text := stream.held:
            stream.held = ""
            self._console.write(number, text, stream.sole_owner)
            yield from self._chunks(stream.owners, stream.shared, text)

    def recovered(self, unsent: Iterable[UnsentText]) -> Iterator[Wrote]:
        """The text that a dead child had not sent."""
        for one in unsent:
            if one.chunk > self._log(one.job_id, one.claim).sent:
                text = one.text if self._mask is None else self._mask.text(one.text)
                yield Wrote(one.job_id, one.claim, one.chunk * STRIDE, storable(text))

    def _chunks(self, owners: tuple[RunningAttempt, ...], shared: bool, text: str) -> Iterator[Wrote]:
        for owner in owners if text else ():
            log = self._log(owner.job_id, owner.claim)
            kept = within_limit(text, log.size)
            log.size += len(text)
            place = log.behind.get(owner.chunk, 0) + 1
            if kept and place < STRIDE:
                log.behind = {owner.chunk: place}  # nothing comes behind an earlier one any more
                seq = owner.chunk * STRIDE + place
                yield Wrote(owner.job_id, owner.claim, seq, storable(kept), shared)

    def _log(self, job_id: str, claim: int) -> _AttemptLog:
        return self._logs.setdefault((job_id, claim), _AttemptLog())
