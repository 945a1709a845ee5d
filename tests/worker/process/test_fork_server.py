"""Child processes are forked by a fork server: they look like new processes, and none outlives its supervisor."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork.clock import SystemClock
from tickwork.worker.ipc.protocol import FrameReader
from tickwork.worker.process.child_main import ChildOptions
from tickwork.worker.process.child_output import ChildOutput
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildSetup
from tickwork.worker.process.fork_server import ForkedChild, ForkServer, start_fork_server, start_fork_server_by_fork
from tickwork.worker.process.fork_server_main import NOT_BORN, Exited, ForkServerProcess, Spawn, from_fork_server

SOURCE = str(Path(__file__).parents[3] / "src")
WAYS = ["forked", "started"]

# A supervisor without a worker: it says who was born, and goes on until its stdin ends.
HOST = """
import atexit, os, select, sys
import tickwork.app
from tickwork.clock import SystemClock
from tickwork.worker.process.child_starter import ChildSetup
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.fork_server import start_fork_server_by_fork, start_fork_server

way, target, forks = sys.argv[1:]
atexit.register(lambda: print("exit", os.getpid(), flush=True))
print("begun", end=" ")  # this waits in the buffer
fork_server = start_fork_server_by_fork(lambda: None) if way == "forked" else start_fork_server()
children = ChildPool(
    ChildSetup(general=[target], slots=2, fork_server=fork_server), SystemClock(),
    target_of=lambda task: target, solo_tasks=(), solo_limit=1
)
children.start()
if forks == "1" and os.fork() == 0:  # a process that has a copy of all sockets
    print("fork", os.getpid(), flush=True)
    select.select([], [], [], 60)
    os._exit(0)
print("host", os.getpid(), flush=True)
told = None
while not select.select([0], [], [], 0.01)[0]:
    children.poll()
    # The process ids of a pool are not public.
    children.tend(children._clock.monotonic())
    now = children._fork_server.pid, *(child.process.pid for child in children._children if child.hello)
    if now != told and len(now) == 2:
        told = now
        print("forker", now[0], flush=True)
        print("child", now[1], flush=True)
children.stop()
"""

# What the code of a user finds when it is loaded.
LOOK = """
import atexit, json, logging, os, signal, subprocess, sys, threading
from tickwork import Tickwork

app = Tickwork("sqlite:///look.db")
where = {number: os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
         if os.path.exists(f"/proc/self/fd/{number}")}
click = sys.modules.get("click")
facts = {
    "main": sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__")),
    "main_file": getattr(sys.modules["__main__"], "__file__", None),
    "argv": sys.argv,
    "path": sys.path,
    "sockets": sum(1 for place in where.values() if place.startswith("socket:")),
    "others": sorted(place for number, place in where.items() if int(number) > 2 and not place.startswith("socket:")),
    "stdin": sys.stdin.read(),
    "own_group": os.getpgrp() == os.getsid(0) == os.getpid(),
    "hup": signal.getsignal(signal.SIGHUP),
    "chld": signal.getsignal(signal.SIGCHLD),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "wakeup": signal.set_wakeup_fd(-1),
    "handlers": [str(handler) for handler in logging.root.handlers],
    "level": logging.root.level,
    "click": click is not None and click.get_current_context(silent=True) is not None,
    "threads": threading.active_count(),
    "stdout_errors": sys.stdout.errors,
    "colour": os.environ.get("COLOUR"),
}
with open("facts.tmp", "w") as file:
    json.dump(facts, file)
os.rename("facts.tmp", "facts.json")
"""

PARENT = """
import atexit, os, subprocess
from tickwork import Tickwork

app = Tickwork("sqlite:///unused.db")
started = subprocess.Popen(["sleep", "1000"])
with open("sleepers", "a") as file:
    file.write(f"{started.pid}\\n")
atexit.register(lambda: open("left", "w").write("yes"))
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Host:
    """A supervisor as a program of its own."""

    def __init__(self, folder: Path, way: str, code: str, *, forks: bool = False, shell: str = "") -> None:
        self.folder = folder
        (folder / "host.py").write_text(HOST)
        (folder / "shop.py").write_text(code)
        program = [sys.executable, "host.py", way, "shop.py", str(int(forks))]
        self._log = folder / "host.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", f'{shell}exec "$@"', "sh", *program] if shell else program,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8:strict"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def pids(self, whose: str) -> list[int]:
        """The process ids that were said of the fork server, the child, ..., the oldest first."""
        return [int(words[1]) for line in self.said.splitlines() if (words := line.split()[-2:])[:1] == [whose]]

    def pid(self, whose: str, count: int = 1) -> int:
        """Return the last of `count` process ids."""
        eventually(lambda: len(self.pids(whose)) >= count, 20, f"{whose} in {self._log}")
        return self.pids(whose)[-1]

    def sleepers(self) -> list[int]:
        """The processes that the code of the children has started."""
        return [int(line) for line in (self.folder / "sleepers").read_text().split()]

    def stop(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(20)

    def end(self) -> None:
        """Leave nothing, whatever the test did."""
        self.process.kill()
        self.process.wait(20)
        for whose in ("fork", "forker", "child"):
            for pid in self.pids(whose):
                with suppress(OSError):
                    if str(self.folder) == os.readlink(f"/proc/{pid}/cwd"):
                        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def make(way: str, code: str, **options: Any) -> Host:
        made.append(Host(tmp_path, way, code, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


# -- what a child is like


def facts(folder: Path) -> dict[str, Any]:
    eventually((folder / "facts.json").exists, 20, "the code was loaded")
    found: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return found


def strange(found: dict[str, Any]) -> list[str]:
    """Open files of a child that are not its console, its two pipes, its board and what watches its pipes."""
    own = ("pipe:", "/memfd:tickwork-board", "anon_inode:[eventpoll]", "/dev/null")
    assert len(found["others"]) == 6
    return [one for one in found["others"] if not one.startswith(own) and not one.endswith("host.log")]


def look_new(found: dict[str, Any], folder: Path) -> None:
    """Check that a child has nothing of those that it comes from."""
    assert found["main_file"] is None
    assert found["main"] == []
    assert found["argv"] == ["tickwork-child", "shop.py"]
    assert found["path"].count(str(folder)) == 1, "for the file is there, which is why it was added"
    assert not any(Path(entry, "python").exists() for entry in found["path"]), "the folder of a script"
    assert (found["sockets"], strange(found)) == (1, []), "its own, to its supervisor"
    assert found["stdin"] == ""
    assert found["own_group"]
    assert (found["hup"], found["chld"]) == (signal.getsignal(signal.SIGHUP), signal.SIG_DFL), "ignored under nohup"
    assert (found["blocked"], found["wakeup"]) == ([], -1)
    assert (found["handlers"], found["level"]) == ([], 30)
    assert (found["click"], found["threads"]) == (False, 1)
    assert found["stdout_errors"] == "strict"


@pytest.mark.parametrize("way", WAYS)
def test_a_child_looks_like_a_new_process(host: Callable[..., Host], way: str, tmp_path: Path) -> None:
    one = host(way, LOOK)
    one.pid("child")
    look_new(facts(tmp_path), tmp_path)


def test_a_child_has_nothing_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(LOOK)
    (tmp_path / "open").write_text("")
    # As a shell may leave it: a descriptor that Python does not know.
    command = 'exec 9<open; exec "$@"'
    worker = subprocess.Popen(
        ["/bin/sh", "-c", command, "sh", sys.executable, "-m", "tickwork", "worker", "shop.py", "--processes", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8:strict"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        look_new(facts(tmp_path), tmp_path)
    finally:
        worker.terminate()
        assert worker.wait(20) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_was_ignored_before_stays_ignored(host: Callable[..., Host], way: str, tmp_path: Path) -> None:
    host(way, LOOK, shell="trap '' HUP; ").pid("child")
    assert facts(tmp_path)["hup"] == signal.SIG_IGN


@pytest.mark.parametrize("way", WAYS)
def test_a_supervisor_may_have_no_stdin(host: Callable[..., Host], way: str, tmp_path: Path) -> None:
    host(way, LOOK, shell="exec 0<&-; ")
    found = facts(tmp_path)
    assert (found["stdin"], found["sockets"], strange(found)) == ("", 1, [])


HANDLERS = """
import asyncio, json, multiprocessing, os, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor
from tickwork import Tickwork

app = Tickwork("sqlite:///unused.db")

def double(n):
    return 2 * n

def tried(what):
    try:
        return what()
    except BaseException as error:
        return repr(error)

def processes(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(double, [1, 2, 3])

def terminated():
    one = multiprocessing.get_context("fork").Process(target=time.sleep, args=[1000])
    one.start()
    one.terminate()
    one.join()
    return one.exitcode

def elsewhere(what):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what).result()

async def shell():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
    return (await process.communicate())[0].decode()

def thread():
    found = []
    one = threading.Thread(target=lambda: found.append(threading.main_thread() is threading.current_thread()))
    one.start()
    one.join()
    return found

facts = {
    "spawn": tried(lambda: processes("spawn")),
    "fork": tried(lambda: processes("fork")),
    "terminated": tried(lambda: [terminated() for _ in range(20)]),
    "terminated by a thread": tried(lambda: elsewhere(terminated)),
    "subprocess": tried(lambda: subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout),
    "asyncio": tried(lambda: asyncio.run(shell())),
    "thread": tried(thread),
} if multiprocessing.parent_process() is None else {}
if facts:
    with open("facts.tmp", "w") as file:
        json.dump(facts, file)
    os.rename("facts.tmp", "facts.json")
"""


@pytest.mark.parametrize("way", WAYS)
def test_code_in_a_child_may_start_processes_threads_and_loops(
    host: Callable[..., Host], way: str, tmp_path: Path
) -> None:
    host(way, HANDLERS)
    assert facts(tmp_path) == {
        "spawn": [2, 4, 6],
        "fork": [2, 4, 6],
        "terminated": 20 * [-signal.SIGTERM],
        "terminated by a thread": -signal.SIGTERM,
        "subprocess": "hi\n",
        "asyncio": "hi\n",
        "thread": [False],
    }


RANDOM = """
import random
from tickwork import Tickwork
app = Tickwork("sqlite:///unused.db")
with open("random", "a") as file:
    file.write(f"{random.random()}\\n")
"""


@pytest.mark.parametrize("way", WAYS)
def test_no_two_children_have_the_same_randomness(host: Callable[..., Host], way: str, tmp_path: Path) -> None:
    one = host(way, RANDOM)
    os.kill(one.pid("child"), signal.SIGKILL)
    one.pid("child", 2)
    assert len(set((tmp_path / "random").read_text().split())) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_child_ends_as_a_process_does_and_what_is_the_supervisors_stays_its_own(
    host: Callable[..., Host], way: str, tmp_path: Path
) -> None:
    one = host(way, PARENT)
    one.pid("child")
    assert one.stop() == 0
    assert (tmp_path / "left").read_text() == "yes", "what its code registered for the exit was called"
    assert one.pids("exit") == [one.process.pid], "and nothing else was, in any of them"
    assert one.said.count("begun") == 1, "what waited to be written was written once"


# -- who outlives whom


@pytest.mark.parametrize("way", WAYS)
def test_when_the_supervisor_ends_nothing_is_left(host: Callable[..., Host], way: str) -> None:
    one = host(way, PARENT)
    pids = [one.pid("forker"), one.pid("child"), *one.sleepers()]
    assert one.stop() == 0
    assert not any(map(alive, pids))


@pytest.mark.parametrize("way", WAYS)
def test_when_the_supervisor_is_killed_children_and_what_they_started_are(host: Callable[..., Host], way: str) -> None:
    one = host(way, PARENT)
    pids = [one.pid("forker"), one.pid("child"), *one.sleepers()]
    assert all(map(alive, pids))
    one.process.kill()
    eventually(lambda: not any(map(alive, pids)), 5, "all are gone")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of it on Linux alone")
@pytest.mark.parametrize("way", WAYS)
def test_that_is_so_when_a_fork_holds_the_sockets_of_the_supervisor(host: Callable[..., Host], way: str) -> None:
    one = host(way, PARENT, forks=True)
    pids = [one.pid("forker"), one.pid("child"), *one.sleepers()]
    one.pid("fork")
    one.process.kill()
    eventually(lambda: not any(map(alive, pids)), 5, "all are gone")
    assert alive(one.pid("fork")), "which is not ours"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_child_started_ends_with_it(host: Callable[..., Host], way: str) -> None:
    one = host(way, PARENT)
    child, (sleeper,) = one.pid("child"), one.sleepers()
    os.kill(child, signal.SIGKILL)
    eventually(lambda: not alive(sleeper), 5)
    assert one.pid("child", 2) != child, "and there is another one"


@pytest.mark.parametrize("way", WAYS)
def test_signals_that_end_others_do_not_end_a_fork_server(host: Callable[..., Host], way: str) -> None:
    one = host(way, PARENT)
    child, fork_server = one.pid("child"), one.pid("forker")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(fork_server, number)
    os.kill(child, signal.SIGKILL)
    one.pid("child", 2)
    assert set(one.pids("forker")) == {fork_server}


@pytest.mark.parametrize("way", WAYS)
def test_when_the_fork_server_is_killed_so_are_the_children_and_others_are_born_elsewhere(
    host: Callable[..., Host], way: str
) -> None:
    one = host(way, PARENT)
    pids = [one.pid("forker"), one.pid("child"), *one.sleepers()]
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: not any(map(alive, pids)), 5, "all are gone")
    assert one.pid("forker", 2) != pids[0]
    later = [one.pid("forker", 2), one.pid("child", 2), one.sleepers()[-1]]
    assert all(map(alive, later))
    one.process.kill()
    eventually(lambda: not any(map(alive, later)), 5, "this one does the same")


# -- its calls


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    made = start_fork_server()
    yield made
    made.close()


@pytest.fixture
def born(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ForkedChild]]:
    """Forks children that send a hello and wait."""
    ends: list[socket.socket] = []
    outputs: list[ChildOutput] = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(PARENT)

    def bear(code: str = PARENT, *, loaded: bool = True) -> ForkedChild:
        (tmp_path / "shop.py").write_text(code)
        ours, theirs = socket.socketpair()
        ends.append(ours)
        output = ChildOutput()
        child = fork_server.spawn([theirs.fileno(), *output.descriptors()], ChildOptions("shop.py"))
        theirs.close()
        output.hand_over()
        outputs.append(output)
        if loaded:
            ours.settimeout(20)
            assert ours.recv(1)
        return child

    yield bear
    for end in ends:
        end.close()
    for output in outputs:
        output.close()


def state(pid: int | None) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_the_number_of_a_child_is_not_reused_until_it_is_released(born: Callable[..., ForkedChild]) -> None:
    child = born()
    child.kill()
    assert child.wait(5) == -signal.SIGKILL
    assert (child.poll(), state(child.pid)) == (-signal.SIGKILL, "Z")
    child.kill()  # which can reach no other process
    child.release()
    eventually(lambda: state(child.pid) == "", 5)
    child.kill()  # which reaches no process any more


def test_what_was_released_is_gone_and_the_others_stay(born: Callable[..., ForkedChild], tmp_path: Path) -> None:
    one, other = born(), born()
    pid = one.pid
    sleepers = [int(line) for line in (tmp_path / "sleepers").read_text().split()]
    one.release()
    eventually(lambda: not state(pid) and not alive(sleepers[0]), 5)
    assert alive(sleepers[1])
    assert other.poll() is None


def test_a_child_that_is_not_born_yet_can_be_killed(born: Callable[..., ForkedChild]) -> None:
    child = born(loaded=False)
    child.kill()
    assert child.wait(5) == -signal.SIGKILL


def test_how_a_child_ended_is_told(born: Callable[..., ForkedChild]) -> None:
    assert born("import os; os._exit(7)", loaded=False).wait(20) == 7
    with pytest.raises(TimeoutError):
        born().wait(0.01)


def test_a_child_has_the_environment_and_the_folder_that_its_supervisor_has_then(
    born: Callable[..., ForkedChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    born("")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "shop.py").write_text(LOOK)
    monkeypatch.setenv("COLOUR", "grün")
    monkeypatch.setenv("BYTES", "\udcff")
    monkeypatch.chdir(tmp_path / "deep")
    born("")
    assert facts(tmp_path / "deep")["colour"] == "grün"


def test_a_fork_server_that_does_not_answer_is_killed(
    fork_server: ForkServer, born: Callable[..., ForkedChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = born()
    pid = child.pid
    monkeypatch.setattr("tickwork.worker.process.fork_server.ANSWER_S", 0.2)
    os.kill(fork_server.pid, signal.SIGSTOP)
    assert born(loaded=False).pid is None, "it never was"
    assert fork_server.lost
    assert child.wait() == -signal.SIGKILL
    eventually(lambda: not alive(pid or 0), 5)
    assert fork_server.fileno() < 0
    assert born(loaded=False).wait() == -signal.SIGKILL
    child.kill()  # what it had started


def test_a_message_that_another_thread_took_in_is_not_silence(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch of the lease may take in that a child was born while the worker's thread waits for that."""
    monkeypatch.setattr(fork_server, "_says_within", lambda seconds: True)
    assert fork_server.hear(1.0), "else the fork server would be killed"
    assert not fork_server.hear()
    assert not fork_server.lost


def test_a_fork_server_that_is_lost_while_it_has_no_children_is_noticed(fork_server: ForkServer) -> None:
    children = ChildPool(
        ChildSetup(general=[], slots=1, fork_server=fork_server),
        SystemClock(),
        target_of=lambda _: "shop.py",
        solo_tasks=(),
        solo_limit=1,
    )
    os.kill(fork_server.pid, signal.SIGKILL)
    eventually(lambda: children.poll() == [] and fork_server.lost, 5)
    assert [one for one in children.filenos() if one >= 0] == []


def test_a_child_that_cannot_be_forked_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    ours, theirs = socket.socketpair()
    process = ForkServerProcess(theirs, os.getppid())
    process._bear(Spawn(3, ChildOptions("shop.py"), {}, b""), [os.dup(0)])
    (answer,) = FrameReader().feed(ours.recv(4096))
    assert from_fork_server.decode(answer) == Exited(3, NOT_BORN)
    for end in (ours, theirs, process._woken, process._wake):
        end.close()


def test_a_process_with_threads_is_not_forked() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        assert start_fork_server_by_fork(lambda: None) is None
    finally:
        ended.set()
        thread.join()
