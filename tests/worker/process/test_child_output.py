"""Output from the descriptors of a child is attributed to its attempt, at its position in the log."""

import os
from collections.abc import Iterator

import pytest

from tickwork.worker.ipc.protocol import Wrote
from tickwork.worker.ipc.shared_memory import Board, RunningAttempt, UnsentText
from tickwork.worker.process.child_output import ChildOutput, OutputAttribution, OutputPiece
from tickwork.worker.process.console import PassedOnOutput
from tickwork.worker.run.capture import LOG_LIMIT, STRIDE

JOB, OTHER = "0" * 36, "1" * 36


@pytest.fixture
def output() -> Iterator[ChildOutput]:
    output = ChildOutput()
    yield output
    output.close()


def credit() -> tuple[OutputAttribution, list[tuple[int, bytes]]]:
    shown: list[tuple[int, bytes]] = []
    console = PassedOnOutput(lambda stream, data: shown.append((stream, data)), lambda: 7, lambda: 0.0, as_json=False)
    return OutputAttribution(console), shown


def piece(data: bytes, *owners: RunningAttempt, stream: int = 1) -> OutputPiece:
    return OutputPiece(stream, data, owners or (RunningAttempt(JOB, 1, 0),), False)


def texts(chunks: Iterator[Wrote]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_a_piece_stands_behind_the_chunk_that_was_open() -> None:
    made, _ = credit()
    found = list(
        made.credit([piece(b"a", RunningAttempt(JOB, 1, 2)), piece(b"b", RunningAttempt(JOB, 1, 2)), piece(b"c")])
    )
    assert [(one.seq, one.text) for one in found] == [(2 * STRIDE + 1, "a"), (2 * STRIDE + 2, "b"), (1, "c")]


def test_a_letter_that_is_read_in_parts_is_one_letter() -> None:
    made, shown = credit()
    data = "grün".encode()
    assert "".join(texts(made.credit([piece(data[:3]), piece(data[3:])]))) == "grün"
    assert list(made.flush()) == []
    assert shown == [(1, f"{JOB} | grün\n".encode())]


def test_bytes_that_are_no_text_are_shown_and_stored_as_they_can_be() -> None:
    made, shown = credit()
    assert texts(made.credit([piece(b"\xff\0x\n")])) == ["�\\0x\n"]
    assert shown == [(1, f"{JOB} | �\\x00x\n".encode())]


def test_a_secret_that_is_read_in_parts_is_masked() -> None:
    made, shown = credit()
    made.hide("open sesame")
    found = texts(made.credit([piece(b"say open ses"), piece(b"ame, or op")])) + texts(made.flush())
    assert "".join(found) == "say ***, or op"
    assert b"".join(one for _, one in shown) == f"{JOB} | say ***, or op\n".encode()


def test_the_beginning_of_a_secret_stays_with_the_attempt_that_wrote_it() -> None:
    made, _ = credit()
    made.hide("open sesame")
    found = list(made.credit([piece(b"open"), piece(b" sesame", RunningAttempt(OTHER, 1, 0))]))
    assert [(one.job_id, one.text) for one in found] == [(JOB, "open"), (OTHER, " sesame")]


def test_a_secret_is_masked_whichever_attempts_begin_or_end_while_it_is_written() -> None:
    job, other = RunningAttempt(JOB, 1, 0), RunningAttempt(OTHER, 1, 0)
    made, shown = credit()
    made.hide("open sesame")
    found = [*made.credit([piece(b"say op", job), piece(b"en s", job, other)]), *made.flush([(OTHER, 1)])]
    found += [
        *made.credit([piece(b"esa", job), piece(b"me, open", RunningAttempt(JOB, 1, 1))]),
        *made.flush([(JOB, 1)]),
    ]
    told = {who: "".join(one.text for one in found if one.job_id == who) for who in (JOB, OTHER)}
    assert told == {JOB: "say ***, open", OTHER: "open s"}
    assert "open s" not in b"".join(one for _, one in shown).decode()


def test_what_only_began_like_a_secret_is_not_lost_when_others_end() -> None:
    made, _ = credit()
    made.hide("open sesame")
    job, other = RunningAttempt(JOB, 1, 0), RunningAttempt(OTHER, 1, 0)
    found = [*made.credit([piece(b"it is open", job, other)]), *made.flush([(OTHER, 1)])]
    found += [*made.credit([piece(b"ed", job)]), *made.flush([(JOB, 1)])]
    told = {who: "".join(one.text for one in found if one.job_id == who) for who in (JOB, OTHER)}
    assert told == {JOB: "it is opened", OTHER: "it is open"}


def test_what_several_attempts_may_have_written_is_marked() -> None:
    made, shown = credit()
    found = list(made.credit([piece(b"x", RunningAttempt(JOB, 1, 0), RunningAttempt(OTHER, 3, 5))]))
    assert list(made.flush()) == []
    assert shown == [(1, b"child 7 | x\n")]
    assert [(one.job_id, one.claim, one.seq, one.shared) for one in found] == [
        (JOB, 1, 1, True),
        (OTHER, 3, 5 * STRIDE + 1, True),
    ]


def test_a_log_is_cut_at_its_limit_whichever_way_it_was_written() -> None:
    made, _ = credit()
    made.sent(Wrote(JOB, 1, STRIDE, "x" * (LOG_LIMIT - 3)))
    found = texts(made.credit([piece(b"abcdef"), piece(b"more")]))
    assert found == [f"abc\n... more than {LOG_LIMIT:,} characters: the rest is not kept\n"]


def test_what_a_dead_child_had_sent_is_not_stored_twice() -> None:
    made, _ = credit()
    made.sent(Wrote(JOB, 1, STRIDE, "one"))
    found = list(made.recovered([UnsentText(JOB, 1, 1, "one"), UnsentText(OTHER, 1, 1, "two")]))
    assert [(one.job_id, one.seq, one.text) for one in found] == [(OTHER, STRIDE, "two")]


def test_the_board_tells_who_runs_and_what_was_not_sent(output: ChildOutput) -> None:
    reader = output.board
    out, err, *pipes, memory = [os.dup(one) for one in output.descriptors()]
    board = Board(memory, pipes)
    first, second = board.enter(JOB, 1), board.enter(OTHER, 2)
    assert first is not None
    assert second is not None
    first.append("grün")
    assert reader.running() == [RunningAttempt(JOB, 1, 1), RunningAttempt(OTHER, 2, 0)]
    assert reader.unsent() == [UnsentText(JOB, 1, 1, "grün")]
    os.write(out, b"raw")
    os.write(err, b"fehler")
    output.drain()
    assert [(one.stream, one.data, one.owners) for one in output.take()] == [
        (1, b"raw", (RunningAttempt(JOB, 1, 1), RunningAttempt(OTHER, 2, 0))),
        (2, b"fehler", (RunningAttempt(JOB, 1, 1), RunningAttempt(OTHER, 2, 0))),
    ]
    assert first.ends_chunk(), "what follows belongs behind what was read"
    assert not second.ends_chunk()
    first.sent(2)
    board.leave(second)
    assert reader.running() == [RunningAttempt(JOB, 1, 1)]
    assert reader.unsent() == []
    for one in (out, err, *pipes):
        os.close(one)
    output.hand_over()


def test_attempts_beyond_the_board_are_counted(output: ChildOutput) -> None:
    _, _, *pipes, memory = [os.dup(one) for one in output.descriptors()]
    board = Board(memory, pipes)
    entries = [board.enter(JOB, number + 1) for number in range(513)]
    assert output.board.has_others()
    assert len(output.board.running()) == 512
    for entry in entries:
        board.leave(entry)
    assert output.board.running() == []
    assert not output.board.has_others()
    output.hand_over()
