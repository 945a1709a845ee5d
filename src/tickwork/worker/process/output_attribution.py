"""Attribute output from a child's descriptors 1 and 2 to attempts: bytes in, `Wrote` messages out.

Output belongs to the attempt that ran when it was read. If several attempts ran, each of them gets it, marked as
shared. Numbers of chunks that a child sends are multiples of `STRIDE`; the numbers between them are for output that
was read from the descriptors before the next chunk.
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

SECRETS = 256  # the number of most recent secrets of a child's attempts that are masked


@dataclass(slots=True)
class _AttemptLog:
    """The state of one attempt's log."""

    sent: int = 0  # number of the last chunk that the child sent
    size: int = 0
    behind: dict[int, int] = field(default_factory=dict)  # chunk -> number of pieces that follow it


@dataclass(slots=True)
class _StreamState:
    decoder: object = field(default_factory=lambda: getincrementaldecoder("utf-8")("replace"))
    owners: tuple[RunningAttempt, ...] = ()
    shared: bool = False
    held: str = ""  # the end of the text that was read, held back because it may begin a secret

    @property
    def sole_owner(self) -> str | None:
        """Return the only job that can have written the last output; None if there are several, or none."""
        return self.owners[0].job_id if len(self.owners) == 1 and not self.shared else None

    def decode(self, data: bytes, final: bool = False) -> str:
        return str(self.decoder.decode(data, final))  # type: ignore[attr-defined]


class OutputAttribution:
    """Attributes the output of one child; `console` shows it on the worker's console."""

    def __init__(self, console: PassedOnOutput) -> None:
        self._console = console
        self._streams = {stream: _StreamState() for stream in STREAMS}
        self._logs: dict[tuple[str, int], _AttemptLog] = {}
        self._secrets: dict[str, None] = {}
        self._always: tuple[str, ...] = ()
        self._mask: SecretMask | None = None

    def always_hide(self, values: Sequence[str]) -> None:
        """Mask some values permanently; they do not count towards the limit of `SECRETS`."""
        self._always = tuple(values)
        self._renew_mask()

    def _renew_mask(self) -> None:
        values = (*self._always, *self._secrets)
        self._mask = SecretMask(values) if values else None

    def hide(self, value: str) -> None:
        """Mask a value from now on; drop the oldest value if there are more than `SECRETS`."""
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
        """Record a chunk that the child itself has sent."""
        log = self._log(chunk.job_id, chunk.claim)
        log.sent = max(log.sent, chunk.seq // STRIDE)
        log.size += len(chunk.text)

    def forget(self, job_id: str, claim: int) -> None:
        self._logs.pop((job_id, claim), None)

    def credit(self, pieces: Iterable[OutputPiece]) -> Iterator[Wrote]:
        """Yield the text of some pieces as chunks of the attempts that they belong to."""
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
        """Return whether `text` seems to continue a secret that began in the held text of another set of attempts."""
        if self._mask is None or {one.key for one in stream.owners}.isdisjoint(one.key for one in owners):
            return False
        whole = stream.held + text
        return not self._mask.text(whole).startswith(stream.held) or self._mask.begun(whole) > len(text)

    def flush(self, ended: Iterable[tuple[str, int]] | None = None) -> Iterator[Wrote]:
        """Yield the text that was held back for attempts that have ended; None means all attempts.

        If the text also belongs to attempts that still run, it stays held back for these.
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
        """Yield the text that a dead child had not sent."""
        for one in unsent:
            if one.chunk > self._log(one.job_id, one.claim).sent:
                text = one.text if self._mask is None else self._mask.text(one.text)
                yield Wrote(one.job_id, one.claim, one.chunk * STRIDE, storable(text))

    def _chunks(self, owners: tuple[RunningAttempt, ...], shared: bool, text: str) -> Iterator[Wrote]:
        """Yield a text as a chunk for each of its owners, numbered after the owner's current chunk."""
        for owner in owners if text else ():
            log = self._log(owner.job_id, owner.claim)
            kept = within_limit(text, log.size)
            log.size += len(text)
            place = log.behind.get(owner.chunk, 0) + 1
            if kept and place < STRIDE:
                log.behind = {owner.chunk: place}  # no more pieces can follow an earlier chunk
                seq = owner.chunk * STRIDE + place
                yield Wrote(owner.job_id, owner.claim, seq, storable(kept), shared)

    def _log(self, job_id: str, claim: int) -> _AttemptLog:
        return self._logs.setdefault((job_id, claim), _AttemptLog())
