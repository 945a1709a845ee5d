"""Tasks for the workers of these tests. TICKWORK_URL is the store, WITNESS the address for reports of events."""

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.process.witness import Witness, tell
from tickwork import Tickwork, batch, current_batch, current_job
from tickwork.worker.run.secrets import revealed

app = Tickwork()
hoard: list[bytearray] = []


def nap(seconds: float) -> None:
    """Sleep so that an interruption is noticed."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.01))


@app.task(retries=0)
def work(n: int, seconds: float = 0.0) -> dict[str, int]:
    """Tell that it runs, take its time, tell that it ran."""
    tell("start")
    nap(seconds)
    tell("end")
    return {"n": n, "attempt": current_job().attempt, "pid": os.getpid()}


@app.task(retries=0)
def kill_the_worker() -> None:
    """Kill the supervisor, which is the parent of the process that this one was forked by."""
    tell("start")
    fork_server = Path(f"/proc/{os.getppid()}/status").read_text()
    os.kill(int(re.findall(r"PPid:\s+(\d+)", fork_server)[0]), signal.SIGKILL)
    nap(30)


@app.task(retries=0)
async def work_async(n: int, seconds: float = 0.0) -> dict[str, int]:
    tell("start")
    await asyncio.sleep(seconds)
    tell("end")
    return {"n": n, "attempt": current_job().attempt, "pid": os.getpid()}


@app.task(retries=0, batch=batch(max=20, wait="200ms"))
def work_in_batches(numbers: list[int]) -> list[dict[str, int]]:
    """Like `work`, for many at once; a call for more than one takes its time."""
    for job in current_batch():
        tell("start", job)
    nap(0.5 if len(numbers) > 1 else 0.0)
    for job in current_batch():
        tell("end", job)
    jobs = zip(numbers, current_batch(), strict=True)
    return [{"n": n, "attempt": job.attempt, "together": len(numbers)} for n, job in jobs]


@app.task(retries=0, sticky="account")
def sticks(account: str) -> int:
    nap(0.005)
    return os.getpid()


@app.task(retries=0)
def lingers() -> int:
    """Take for ever the first time, and no time at all later."""
    tell("start")
    nap(1000 if current_job().attempt == 1 else 0)
    return current_job().attempt


@app.task(retries=0)
def saves(steps: int) -> int:
    """Count with a cursor that later attempts resume from."""
    job = current_job()
    done = job.saved or 0
    tell("start")
    while done < steps:
        nap(0.02)
        done += 1
        job.save(done)
        job.progress(done / steps)
        print(f"step {done}")
    tell("end")
    return done


@app.task(retries=0)
def beats(seconds: float, stubborn: bool = False) -> int:
    """Tell again and again that it runs; a stubborn one does not let itself be interrupted."""
    until = time.monotonic() + seconds
    tell("start")
    while time.monotonic() < until:
        try:
            nap(0.05)
        except BaseException:
            if not stubborn:
                raise
        tell("beat")
    tell("end")
    return current_job().attempt


@app.task(retries=0)
def with_grandchild(seconds: float = 1000.0) -> None:
    """Start a program, tell its pid, and wait for it."""
    program = subprocess.Popen(["sleep", str(seconds)])
    tell(f"started:{program.pid}")
    program.wait()


@app.task(retries=0)
def ends_its_program() -> int:
    program = subprocess.Popen(["sleep", "1000"])
    program.terminate()
    return program.wait(10)


# -- what does not end by itself


@app.task(retries=0)
def spins() -> None:
    tell("start")
    while True:
        pass


@app.task(retries=0)
def sleeps() -> None:
    tell("start")
    time.sleep(1000)


@app.task(retries=0)
async def sleeps_async() -> None:
    tell("start")
    await asyncio.sleep(1000)


@app.task(retries=0)
async def blocks_the_loop() -> None:
    tell("start")
    time.sleep(1000)  # noqa: ASYNC251


@app.task(retries=0)
def never_returns() -> None:
    """A C call that never returns and lets no other thread run."""
    tell("start")
    ctypes.PyDLL(None).sleep(1000)


@app.task(retries=0)
def never_matches() -> None:
    """Match a regular expression that never ends and holds the interpreter lock."""
    tell("start")
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task(retries=0)
def does_not_listen() -> None:
    tell("start")
    while True:
        try:
            nap(1000)
        except BaseException:
            continue


# -- what ends its process


@app.task(retries=0)
def poison() -> None:
    tell("start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retries=0)
def leaves() -> None:
    tell("start")
    os._exit(3)


@app.task(retries=0)
def closes_everything() -> None:
    tell("start")
    os.closerange(3, 1000)
    time.sleep(1000)


# -- what uses memory


@app.task(retries=0)
def allocates(megabytes: int, keeps: bool = False) -> int:
    block = bytearray(megabytes << 20)
    if keeps:
        hoard.append(block)
    return os.getpid()


@app.task(retries=0)
def leaves_a_thread_behind() -> int:
    import threading

    threading.Thread(target=time.sleep, args=(1000,), daemon=False).start()
    return os.getpid()


@app.task(retries=0)
def writes(lines: int, hangs: bool = True) -> None:
    for line in range(lines):
        print(f"line {line}")
    print("to stderr", file=sys.stderr)
    nap(0.1)  # the moment that output may stay in its own process
    tell("start")
    if hangs:
        nap(1000)


@app.task(retries=0, timeout="1s")
def last_words(how: str) -> None:
    """Write in many ways, and die at once."""
    print("printed")
    os.write(1, b"written\n")
    subprocess.run(["sh", "-c", "echo by a program; sleep 0.05; echo to stderr >&2"], check=True)
    current_job().logger.info("logged")
    current_job().progress(0.5, "half of it")
    print("the last line", flush=True)
    match how:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "hang":
            ctypes.PyDLL(None).sleep(1000)


@app.task(retries=0)
def tells_a_secret() -> None:
    secret = revealed("${secret.PASSWORD}", {"PASSWORD": "open sesame"})
    os.write(1, secret[:4].encode())
    time.sleep(0.1)  # it is read in two parts
    os.write(1, f"{secret[4:]} in two parts\n".encode())
    subprocess.run(["echo", secret, "of a program"], check=True)
    os._exit(3)


@app.task(retries=0)
def writes_raw(name: str, meets: int) -> None:
    """Write to the descriptor while as many attempts run as there shall be."""
    print(f"{name} begins")
    _meet("start", meets)
    os.write(1, f"raw of {name}\n".encode())
    print(f"{name} goes on")
    _meet("wrote", meets)


def _meet(event: str, count: int) -> None:
    tell(event)
    while len(Witness(Path(os.environ["WITNESS"])).events(event=event)) < count:
        nap(0.01)


@app.task(retries=0)
def floods(megabytes: int) -> str:
    """Write more than a log keeps, by a program and by C code that lets no other thread run."""
    subprocess.run(["sh", "-c", f"yes 0123456789abcdef | head -c {megabytes << 20}"], check=True)
    block = b"x" * (1 << 20)
    ctypes.PyDLL(None).write(1, block, len(block))
    return "done"


@app.task(retries=0)
def leaves_a_writer() -> None:
    """Leave a program behind that keeps the descriptors and writes for ever, out of our process group."""
    program = subprocess.Popen(["sh", "-c", "while :; do echo tick; sleep 0.05; done"], start_new_session=True)
    tell(f"started:{program.pid}")
    print("left it")
    os._exit(3)


@app.task(retries=0)
def forks() -> None:
    """Print in a process that is forked, as multiprocessing does."""
    pid = os.fork()
    if pid == 0:
        print("from a fork " * 1000)
        os._exit(7)
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


@app.task(retries=0)
def echoes(text: str) -> int:
    return len(text)


@app.task(transactional=True, retries=5, backoff="10ms")
def counts(tx: Any, n: int) -> int:
    tell("start")
    tx.execute("UPDATE counter SET n = n + 1")
    nap(0.05)
    tell("end")
    return n
