"""Messages between a supervisor and its children arrive as they were sent, however the stream is split."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork import Tickwork
from tickwork.core.dag.graph import decode_graph
from tickwork.core.job import Policy, TaskDefinition
from tickwork.core.outcome import Cancelled, Ending, Failed, Released, Snoozed, Succeeded, TimedOut
from tickwork.core.retry import RetryPolicy
from tickwork.errors import InvariantBroken
from tickwork.worker.ipc import protocol
from tickwork.worker.ipc.protocol import AttemptEnd, FrameReader, encode, from_executor, to_executor
from tickwork.worker.process.child_main import hello

ASSIGNMENT = protocol.Assignment("job", 2, 2**63 - 1, "task", "queue", b"{}", 1.5, ("OSError",), (), 10, 20, 3.25)
TO_EXECUTOR = [
    protocol.RunAttempts([ASSIGNMENT, ASSIGNMENT]),
    protocol.Interrupt("job", 1, "cancel"),
    protocol.AskReply(7, True, b"state"),
    protocol.AskReply(8, False, None),
    protocol.Recall(),
    protocol.Quit(),
]
FROM_EXECUTOR = [
    protocol.Hello(
        {"url": "sqlite:///x", "listen_url": None},
        [
            TaskDefinition(
                "task", "mail", 5, Policy(RetryPolicy(), timedelta(seconds=1), key_for=timedelta(hours=1)), b"{}"
            )
        ],
        {"task": "thread"},
    ),
    protocol.LoadFailed("no such file"),
    protocol.AttemptsEnded(
        [
            AttemptEnd("job", 1, "succeeded", 1.0, result=b"42", took=0.5),
            AttemptEnd("other", 1, "failed", 2.0, error="x"),
        ]
    ),
    protocol.Started("job", 1, 5.0),
    protocol.Stuck("job", 1, "timed_out", "too long", 5.0),
    protocol.Returned(["a", "b"]),
    protocol.Wrote("job", 1, 0, "ünï∂é"),
    protocol.Progressed("job", 1, 0.5, None),
    protocol.Ask(1, "job", 1, b"state"),
    protocol.Ask(2, "job", 1, None),
]


@given(cuts=st.lists(st.integers(1, 50), max_size=60))
def test_frames_arrive_whole_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(map(encode, TO_EXECUTOR))
    frames, arrived = FrameReader(), []
    for size in [*cuts, len(stream)]:
        piece, stream = stream[:size], stream[size:]
        arrived += [to_executor.decode(frame) for frame in frames.feed(piece)]
    assert arrived == TO_EXECUTOR


def test_every_message_of_an_executor_arrives_as_it_was_sent() -> None:
    frames = FrameReader().feed(b"".join(map(encode, FROM_EXECUTOR)))
    assert [from_executor.decode(frame) for frame in frames] == FROM_EXECUTOR


def test_the_dags_of_an_app_arrive_as_they_were_traced() -> None:
    app = Tickwork("sqlite:///unused.db")

    @app.task
    def add(number: int, other: int) -> int:
        return number + other

    @app.dag
    def sums(n: int) -> list[int]:
        return add.map([1, 2], other=add(n, 1))  # type: ignore[no-any-return]

    (frame,) = FrameReader().feed(encode(hello(app)))
    arrived = from_executor.decode(frame)

    assert isinstance(arrived, protocol.Hello)
    assert [decode_graph(one) for one in arrived.graphs] == [sums.graph]


def test_attempts_with_large_arguments_travel_in_several_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "FRAME_ENOUGH", 10)
    sizes = [3, 3, 3, 3, 25, 1, 9, 10]
    jobs = [msgspec.structs.replace(ASSIGNMENT, args=b"x" * size) for size in sizes]
    parts = [[len(job.args) for job in message.jobs] for message in protocol.runs_of(jobs)]
    assert parts == [[3, 3, 3], [3], [25], [1, 9], [10]], "in their order, and one that is larger by itself"
    assert list(protocol.runs_of([])) == []


def test_an_empty_piece_is_no_frame() -> None:
    assert list(FrameReader().feed(b"")) == []


def test_a_frame_that_is_absurdly_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvariantBroken, match="was announced"):
        list(FrameReader().feed(b"\xff\xff\xff\xff"))
    monkeypatch.setattr(protocol, "FRAME_LIMIT", 10)
    with pytest.raises(InvariantBroken, match="too long"):
        encode(protocol.LoadFailed("x" * 100))


@pytest.mark.parametrize(
    ("end", "ending"),
    [
        (AttemptEnd("j", 1, "succeeded", 0.0, result=b"1"), Succeeded(b"1")),
        (AttemptEnd("j", 1, "succeeded", 0.0), Succeeded(b"null")),
        (AttemptEnd("j", 1, "failed", 0.0, error="e", fatal=True), Failed("e", True)),
        (AttemptEnd("j", 1, "failed", 0.0, error="e", after_s=1.5), Failed("e", False, timedelta(seconds=1.5))),
        (AttemptEnd("j", 1, "timed_out", 0.0, error="e"), TimedOut("e")),
        (AttemptEnd("j", 1, "snoozed", 0.0, after_s=60.0), Snoozed(timedelta(minutes=1))),
        (AttemptEnd("j", 1, "cancelled", 0.0), Cancelled()),
        (AttemptEnd("j", 1, "released", 0.0), Released()),
    ],
)
def test_an_end_is_what_decide_takes(end: AttemptEnd, ending: Ending) -> None:
    assert end.ending() == ending


def test_a_strange_message_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        to_executor.decode(msgspec.msgpack.encode(["dance"]))
