"""A child process of a worker: loads the user's code, runs attempts, and says how they end.

It is forked by the nursery and leads a process group of its own, so that it can be killed together with whatever its
handlers start.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import msgspec

from tickwork.clock import SystemClock
from tickwork.core.dag.graph import encode_graph
from tickwork.dag import DagRegistry
from tickwork.errors import InvalidInput, WorkerError
from tickwork.observe.json_log import log_json, wants_json
from tickwork.worker.ipc import protocol
from tickwork.worker.ipc.protocol import (
    AttemptEnd,
    AttemptsEnded,
    ConnectionsRefused,
    FrameReader,
    FromExecutor,
    Hello,
    LoadFailed,
    Returned,
    encode,
    to_executor,
)
from tickwork.worker.ipc.shared_memory import Board
from tickwork.worker.ipc.stdio import take_pipes
from tickwork.worker.process.after_fork import signal_when_parent_dies, take_no_signals
from tickwork.worker.process.console import Consoles
from tickwork.worker.process.load_app import load_app
from tickwork.worker.run.capture import Recorder, captured
from tickwork.worker.run.executor import Executor
from tickwork.worker.run.secrets import passwords
from tickwork.worker.tasks.builtin import add_builtin
from tickwork.worker.tasks.shell import add_shell
from tickwork.worker.tasks.sleep import add_sleep

BATCH = 64  # so many ends travel in one frame at most
MOMENT_S = 0.001  # an end waits so long for others while more work is at hand


class Outbox:
    """Sends to the supervisor. Ends are gathered for a moment while more work is at hand, else sent at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ends: list[AttemptEnd] = []
        self._stirred = threading.Event()

    def send(self, message: FromExecutor) -> None:
        """Send a message, after the ends that came before it."""
        with self._lock:
            self._send_ends()
            self._transmit(message)

    def ended(self, ends: Sequence[AttemptEnd], idle: bool) -> None:
        with self._lock:
            first = not self._ends
            self._ends += ends
            if idle or len(self._ends) >= BATCH:
                self._send_ends()
                return
        if first:
            self._stirred.set()

    def stir(self, _: object) -> None:
        self._stirred.set()

    def keep_flushing(self, executor: Executor) -> None:
        """Send what was gathered, a moment after the first of it came."""
        while True:
            self._stirred.wait()
            self._stirred.clear()
            threading.Event().wait(MOMENT_S)
            executor.flush()
            with self._lock:
                self._send_ends()

    def _send_ends(self) -> None:
        # A handler that is interrupted just here sends them twice, which is harmless, rather than not at all.
        if self._ends:
            self._transmit(AttemptsEnded(self._ends))
            self._ends = []

    def _transmit(self, message: FromExecutor) -> None:
        """Send, or end this process: one whose link is gone, or that a handler forked, must not live on unheard."""
        if os.getpid() != self._pid:
            os._exit(0)
        try:
            self._connection.sendall(encode(message))
        except OSError:
            os._exit(1)


class ChildOptions(msgspec.Struct, frozen=True):
    """What a child runs, and how.

    `target` is the user's code. `memory_mb` is a hard cap, 0 for none. With `shell` there are the tasks `shell` and
    `@sleep` too; the commands of `shell` run as the user `run_as`, if it is one.
    """

    target: str
    slots: int = 1
    memory_mb: int = 0
    shell: bool = False
    run_as: str | None = None


def main(descriptors: Sequence[int], options: ChildOptions) -> None:
    """Load the code, say hello, and serve until the supervisor goes.

    `descriptors`: a socket to it, the pipes for our descriptors 1 and 2, their other ends, and the memory of the board.
    """
    descriptor, out, err, *pipes, memory = descriptors
    streams, board = take_pipes(out, err), Board(memory, pipes)
    as_json = wants_json()
    consoles = Consoles(streams.out, streams.err, as_json=as_json)
    signal_when_parent_dies(signal.SIGKILL)
    take_no_signals((signal.SIGINT, signal.SIGTERM))  # Ctrl-C is the supervisor's to handle
    faulthandler.enable(file=2)
    if options.memory_mb:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_mb << 20, options.memory_mb << 20))
    if as_json:
        log_json(handler=consoles.records)
    connection = socket.socket(fileno=descriptor)
    outbox = Outbox(connection)
    try:
        app = load_app(options.target)
        add_builtin(app)
        if options.shell:
            add_shell(app, options.run_as)
            add_sleep(app)
        greeting = hello(app)
    except (WorkerError, InvalidInput) as error:
        outbox.send(LoadFailed(str(error)))
        return
    with captured(streams):
        _serve(app, greeting, connection, outbox, options.slots, Recorder(board, streams, consoles.end))


def _serve(
    app: Any, greeting: Hello, connection: socket.socket, outbox: Outbox, slots: int, recorder: Recorder
) -> None:
    clock = SystemClock()
    app.on_refused = lambda: outbox.send(ConnectionsRefused(1))
    executor = Executor(
        app.tasks,
        lambda: app.store,
        slots,
        outbox.send,
        outbox.ended,
        clock,
        outbox.stir,
        replaces_threads=False,
        large_results=app.large_results,
        hidden=greeting.hidden,
        secret_env=app.settings.secret_env,
        recorder=recorder,
    )
    threading.Thread(target=outbox.keep_flushing, args=(executor,), name="tickwork-outbox", daemon=True).start()
    outbox.send(greeting)
    frames = FrameReader()
    with suppress(OSError):
        while data := connection.recv(1 << 18):
            for frame in frames.feed(data):
                if not _obey(executor, outbox, to_executor.decode(frame)):
                    return
    os.killpg(0, signal.SIGKILL)  # the supervisor is gone: nothing that we do would be accepted


def _obey(executor: Executor, outbox: Outbox, message: protocol.ToExecutor) -> bool:
    """Do what the supervisor says; False when it says to leave."""
    match message:
        case protocol.RunAttempts(jobs):
            executor.run(jobs)
        case protocol.Interrupt(job_id, claim, reason):
            executor.interrupt(job_id, claim, reason)
        case protocol.AskReply():
            executor.answer(message)
        case protocol.Recall():
            outbox.send(Returned(executor.recall()))
        case protocol.Quit():
            return False
    return True


def hello(app: DagRegistry) -> Hello:
    """What a worker needs to know of an app. A dag that is not valid is told of, and stops nobody."""
    graphs, flaws = [], []
    for dag in app.dags.values():
        try:
            graphs.append(encode_graph(dag.graph))
        except Exception as error:
            flaws.append(f"dag {dag.name!r} cannot be run: {error}")
    pools = {name: task.pool for name, task in app.tasks.items()}
    batches = {name: task.batch for name, task in app.tasks.items() if task.batch is not None}
    definitions = [task.definition() for task in app.tasks.values()]
    hidden = sorted(passwords(app.settings, os.environ))
    return Hello(asdict(app.settings), definitions, pools, app.declared_schedules(), batches, graphs, flaws, hidden)
