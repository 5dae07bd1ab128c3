"""Filters the terminal output of Java and of Spark's Python processes.

All of them share one standard error. PySpark logs its own startup there, and every process reports
an interrupt at length. Lines are delayed for a moment, so that an interrupt is known before its
reports would be shown.
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
LINE_BYTES_MAX = 64 * 1024  # an unfinished line is passed on at this size
CHATTER = (
    b"Streaming TransformWithStateInPandas Python worker",
    b"WARNING: Using incubator modules",
    b"Setting default log level to ",
    b"To adjust logging level use ",
)


class Sieve:
    """Filters lines: no chatter, and no empty line behind a dropped line."""

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
        """Drop all further lines, and those of the last moment."""
        self._shut.set()

    @property
    def is_shut(self) -> bool:
        return self._shut.is_set()

    def carry(self, source: int, target: int) -> None:
        """Carry lines until Java and all its processes have ended."""
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
    """Carry the output of a Java that is started in this block. A Java that runs already keeps its
    own."""
    output = JavaOutput()
    if SparkContext._gateway is not None:  # PySpark has no public name for it
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
    """Delay an interrupt until the end of this block: PySpark would leave a starting Java behind,
    which no process would stop."""
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
    """Make an interrupt a KeyboardInterrupt alone in this block.

    Spark's own handler would cancel its jobs first, and have each of them report it. Output of
    PySpark in this process is hidden until the block has ended.
    """
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
    """Hide standard error. Return the previous one."""
    before = os.dup(STDERR)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDERR)
    os.close(nowhere)
    return before
