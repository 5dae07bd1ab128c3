"""What Java and Spark's Python processes write to the terminal, on its way there.

All of them share one standard error. PySpark tells of itself there, its worker for state in whole
paragraphs, which say nothing to anybody; and when an application is interrupted each of them says
so at length. Lines wait for a moment, so that an interrupt is known before its echo is shown.
"""

import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pyspark import SparkContext

STDERR = 2
HELD_SECONDS = 0.3
READ_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 64 * 1024  # what has no end of line by then is passed on as it is
CHATTER = (
    b"Streaming TransformWithStateInPandas Python worker",
    b"WARNING: Using incubator modules",
    b"Setting default log level to ",
    b"To adjust logging level use ",
)


class Sieve:
    """Lines in, lines out: without the chatter and the empty line behind each of its lines."""

    def __init__(self) -> None:
        self._after_chatter = False

    def passes(self, line: bytes) -> bool:
        if any(each in line for each in CHATTER):
            self._after_chatter = True
            return False
        empty = self._after_chatter and not line.strip()
        self._after_chatter = False
        return not empty


class JavaOutput:
    """Carries lines from Java to the terminal until it is shut."""

    def __init__(self) -> None:
        self._shut = threading.Event()

    def shut(self) -> None:
        """Nothing that comes, or has come in the last moment, is shown any more."""
        self._shut.set()

    @property
    def is_shut(self) -> bool:
        return self._shut.is_set()

    def carry(self, source: int, target: int) -> None:
        """Until the other end is closed: when Java, and all that it started, have ended."""
        sieve, held, rest = Sieve(), deque[tuple[float, bytes]](), b""
        is_open = True
        while is_open or held:
            wait = HELD_SECONDS if held else None
            ready = is_open and bool(select.select([source], [], [], wait)[0])
            if ready:
                data = os.read(source, READ_BYTES_MAX)
                is_open = bool(data)
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    lines, rest = [*lines, rest], b""
                now = time.monotonic()
                held.extend((now, line + b"\n") for line in lines if sieve.passes(line))
                if not is_open and rest:
                    held.append((now, rest))
            due = time.monotonic() - (HELD_SECONDS if is_open else 0)
            while held and held[0][0] <= due:
                line = held.popleft()[1]
                if not self.is_shut:
                    os.write(target, line)
        os.close(source)
        os.close(target)


@contextmanager
def carried_output() -> Iterator[JavaOutput]:
    """Java is started in here, and writes through it from then on. A Java that runs already keeps
    what it has."""
    output = JavaOutput()
    if SparkContext._gateway is not None:  # PySpark has no other word for it
        yield output
        return
    source, entrance = os.pipe()
    before = os.dup(STDERR)
    os.dup2(entrance, STDERR)
    os.close(entrance)
    carrier = threading.Thread(
        target=output.carry, args=(source, os.dup(before)), name="java-output", daemon=True
    )
    carrier.start()
    try:
        yield output
    finally:
        os.dup2(before, STDERR)
        os.close(before)


@contextmanager
def interrupts_wait(output: JavaOutput) -> Iterator[None]:
    """In here an interrupt is kept for the end: PySpark leaves a Java behind that it was starting
    when it was interrupted, and nobody ends it any more."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    came = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        output.shut()
        came.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came.is_set():
        raise KeyboardInterrupt


@contextmanager
def shut_on_interrupt(output: JavaOutput) -> Iterator[None]:
    """In here an interrupt is a KeyboardInterrupt and nothing else: Spark's own handler would
    cancel its jobs first, and have each of them say so. Nor is anything shown of what PySpark has
    to say to it in this process, until the way out is done."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    hidden: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        output.shut()
        if not hidden:
            hidden.append(_hidden_stderr())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for each in hidden:
            os.dup2(each, STDERR)
            os.close(each)


def _hidden_stderr() -> int:
    """What it was before."""
    before = os.dup(STDERR)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDERR)
    os.close(nowhere)
    return before
