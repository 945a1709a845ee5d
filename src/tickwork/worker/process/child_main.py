"""The main program of a worker's child process: load the user's code, run attempts, and report their ends.

The fork server forks it. It leads a process group of its own, so that it can be killed together with the processes
that its handlers start.
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
from tickwork.errors import InvalidInput, WorkerError
from tickwork.observe.json_log import log_json, wants_json
from tickwork.registry import AppRegistry
from tickwork.security.vault import Vault
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
from tickwork.worker.process.after_fork import signal_when_parent_dies, take_no_signals
from tickwork.worker.process.console import Consoles
from tickwork.worker.process.load_app import load_app
from tickwork.worker.run.capture import Recorder, captured, take_pipes
from tickwork.worker.run.executor import Executor
from tickwork.worker.run.secrets import passwords
from tickwork.worker.tasks.builtin import add_builtin
from tickwork.worker.tasks.shell import add_shell
from tickwork.worker.tasks.sleep import add_sleep

BATCH = 64  # the limit of ends in one frame
MOMENT_S = 0.001  # how long an end is delayed to be sent with others while more work is queued


class Outbox:
    """Sends messages to the supervisor.

    While more work is queued, it delays reports of ended attempts by up to `MOMENT_S`, so that they are sent together.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ends: list[AttemptEnd] = []
        self._stirred = threading.Event()

    def send(self, message: FromExecutor) -> None:
        """Send a message, after the ends that are still batched."""
        with self._lock:
            self._send_ends()
            self._transmit(message)

    def ended(self, ends: Sequence[AttemptEnd], idle: bool) -> None:
        """Batch attempt ends; send the batch if the executor is idle or the batch is full."""
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
        """Send output and batched ends `MOMENT_S` after the first of them was added.

        Never returns; runs on its own thread.
        """
        while True:
            self._stirred.wait()
            self._stirred.clear()
            threading.Event().wait(MOMENT_S)
            executor.flush()
            with self._lock:
                self._send_ends()

    def _send_ends(self) -> None:
        # An interruption between the two lines sends the ends twice, which is harmless. The other order may lose them.
        if self._ends:
            self._transmit(AttemptsEnded(self._ends))
            self._ends = []

    def _transmit(self, message: FromExecutor) -> None:
        """Send a message, or exit if the connection is lost or this process was forked by a handler."""
        if os.getpid() != self._pid:
            os._exit(0)
        try:
            self._connection.sendall(encode(message))
        except OSError:
            os._exit(1)


class ChildOptions(msgspec.Struct, frozen=True):
    """The options of a child process.

    `target` is the user's code. `memory_mb` is a hard cap; 0 means none. `shell` adds the tasks `shell` and `@sleep`.
    The commands of `shell` run as the system user `run_as`, or if it is None, as the user of the worker.
    """

    target: str
    slots: int = 1
    memory_mb: int = 0
    shell: bool = False
    run_as: str | None = None


def main(descriptors: Sequence[int], options: ChildOptions) -> None:
    """Load the code, send `Hello`, and run attempts until the supervisor closes the connection.

    `descriptors`: the socket to the supervisor, the write ends of the pipes for descriptors 1 and 2, their read ends,
    and the shared memory.
    """
    descriptor, out, err, *pipes, memory = descriptors
    streams, board = take_pipes(out, err), Board(memory, pipes)
    as_json = wants_json()
    consoles = Consoles(streams.out, streams.err, as_json=as_json)
    signal_when_parent_dies(signal.SIGKILL)
    take_no_signals((signal.SIGINT, signal.SIGTERM))  # the supervisor handles Ctrl-C
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
    Vault.is_closed = True
    with captured(streams):
        _serve(app, greeting, connection, outbox, options.slots, Recorder(board, streams, consoles.end))


def _serve(
    app: Any, greeting: Hello, connection: socket.socket, outbox: Outbox, slots: int, recorder: Recorder
) -> None:
    """Run attempts until the supervisor tells this process to exit; if the supervisor is gone, kill this group."""
    app.on_refused = lambda: outbox.send(ConnectionsRefused(1))
    executor = Executor(
        tasks=app.tasks,
        store=lambda: app.store,
        slots=slots,
        emit=outbox.send,
        ended=outbox.ended,
        clock=SystemClock(),
        stirred=outbox.stir,
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
    os.killpg(0, signal.SIGKILL)  # the supervisor is gone, and no result would be accepted


def _obey(executor: Executor, outbox: Outbox, message: protocol.ToExecutor) -> bool:
    """Carry out a message of the supervisor; return False if it tells the child to exit."""
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


def hello(app: AppRegistry) -> Hello:
    """Return the `Hello` message of an app. An invalid dag is reported in `flaws` and does not raise."""
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
