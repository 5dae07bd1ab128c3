"""Work in a child process, which starts when first needed and ends when idle.

Parent and child exchange pickled messages over two pipes. The child never outlives its parent: the
child's input closes with the parent. The child runs at a lower priority, and the parent logs the
child's log records. If the child is killed, the waiting caller gets ProcessDied.

The child starts as `python -m penstock.real.child_process`, never by a bare fork. A node may live
in a test's or a notebook's process, and a fork would lose that process's threads.
"""

import importlib
import logging
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.real.disk import RealDisk
from penstock.real.loop import READABLE, Loop, LoopTimer
from penstock.real.process_stats import resident_bytes
from penstock.real.workers import ThreadWorkers
from penstock.world import ProcessDied

log = logging.getLogger("penstock.apart")

NICENESS = 10
IDLE_MS_MAX = 60_000  # an idle child ends after this
STOP_MS_MAX = 500  # a child that ignores `stop` is killed after this
READ_BYTES = 256 * 1024
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
_SIZE = struct.Struct(">I")
# The first word of a message.
_PATH, _RUN, _STOP = "path", "run", "stop"
_HEARD, _LOG, _DONE = "heard", "log", "done"

Done = Callable[[Any, BaseException | None], None]


def _frame(message: tuple[Any, ...]) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    assert len(data) <= MESSAGE_BYTES_MAX, "a message between processes has a limit"
    return _SIZE.pack(len(data)) + data


# -- the parent's side


class RealChildTask:
    """One piece of work, pending or running in a child."""

    def __init__(self, heard: Callable[[Any], None], done: Done) -> None:
        self.heard = heard
        self.done = done
        self.stopped = False
        self.child: Child | None = None

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            if self.child is not None:
                self.child.stop()


class Child:
    """One child process and its work."""

    def __init__(self, owner: "RealChildProcesses", process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None and process.stdout is not None, "it is talked to"
        self._owner = owner
        self._loop = owner.loop
        self._process = process
        self._input = process.stdin
        self._output = process.stdout.fileno()
        self._received = bytearray()
        self._timer: LoopTimer | None = None
        self.errand: RealChildTask | None = None
        os.set_blocking(self._output, False)
        self._loop.watch(self._output, READABLE, self._readable)
        self._say((_PATH, sys.path))

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, errand: RealChildTask, message: tuple[Any, ...]) -> None:
        self._forget_timer()
        self.errand, errand.child = errand, self
        self._say(message)

    def stop(self) -> None:
        self._say((_STOP,))
        self._set_timer(STOP_MS_MAX, self._process.kill)

    def _say(self, message: tuple[Any, ...]) -> None:
        # On a thread: a pipe takes 64 KB at once, and an order may be longer.
        self._owner.write(self, _frame(message))

    def write_now(self, data: bytes) -> None:
        try:
            self._input.write(data)
            self._input.flush()
        except (OSError, ValueError):
            pass  # the child is gone; its output reports that

    def _set_timer(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._forget_timer()
        self._timer = self._loop.at(self._loop.mono_ms() + delay_ms, call)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _readable(self, _mask: int) -> None:
        try:
            data = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended()
            return
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            message = pickle.loads(self._received[_SIZE.size : end])  # from our own child
            del self._received[:end]
            self._received_message(message)

    def _received_message(self, message: tuple[Any, ...]) -> None:
        errand = self.errand
        match message:
            case (str(word), name, level, text) if word == _LOG:
                logging.getLogger(name).log(level, "%s", text)
            case (str(word), value) if word == _HEARD and errand is not None:
                if not errand.stopped:
                    errand.heard(value)
            case (str(word), result, failure) if word == _DONE and errand is not None:
                self.errand = errand.child = None
                self._set_timer(IDLE_MS_MAX, self.dismiss)
                self._owner.is_idle(self)
                errand.done(result, failure)

    def dismiss(self) -> None:
        """Close the child's input, which ends the child."""
        self._owner.forget(self)
        self._owner.write(self, None)

    def close_input(self) -> None:
        try:
            self._input.close()
        except OSError:
            pass  # no process reads the rest

    def _ended(self) -> None:
        self._forget_timer()
        self._loop.unwatch(self._output)
        self._owner.has_ended(self)
        errand, self.errand = self.errand, None
        self._owner.workers.run(self._reap, (), lambda code, _failure: self._tell(errand, code))

    def _reap(self) -> int:
        self.close_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return self._process.wait()

    def _tell(self, errand: RealChildTask | None, code: int | None) -> None:
        if errand is None:
            return
        how = f"with code {code}"
        if code is not None and code < 0:
            how = f"by {signal.Signals(-code).name}"
        errand.done(None, ProcessDied(f"process {self.pid} ended {how} before its work did"))

    def kill_now(self) -> None:
        """Kill the child at the end of the node; waits a short time."""
        self._forget_timer()
        self._loop.unwatch(self._output)
        self._process.kill()
        self._reap()


class RealChildProcesses:
    """The children of this node: as many as there are works at a time."""

    def __init__(self, loop: Loop, workers: ThreadWorkers, group_access: bool = False) -> None:
        self._group_access = group_access
        self.loop = loop
        self.workers = workers
        self._children: dict[Child, None] = {}
        self._idle: list[Child] = []
        self._writes: dict[Child, list[bytes | None]] = {}
        self._closed = False

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._children]

    def run(
        self,
        function: str,
        root: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Done,
    ) -> RealChildTask:
        errand = RealChildTask(heard, done)
        message = (_RUN, function, os.path.abspath(root), self._group_access, arguments)
        if self._idle:
            self._idle.pop().run(errand, message)
            return errand
        self.workers.run(
            _start, (), lambda process, why: self._begin(errand, message, process, why)
        )
        return errand

    def _begin(
        self,
        errand: RealChildTask,
        message: tuple[Any, ...],
        process: "subprocess.Popen[bytes] | None",
        failure: BaseException | None,
    ) -> None:
        if process is None:
            errand.done(None, ProcessDied(f"no process can be started: {failure}"))
            return
        child = Child(self, process)
        if self._closed:
            child.kill_now()
            return
        self._children[child] = None
        log.debug("process %d works beside this one", child.pid)
        if errand.stopped:
            self.is_idle(child)
            errand.done(None, ProcessDied("it was stopped before it began"))
        else:
            child.run(errand, message)

    def is_idle(self, child: Child) -> None:
        self._idle.append(child)

    def forget(self, child: Child) -> None:
        """Give the child no more work."""
        if child in self._idle:
            self._idle.remove(child)

    def has_ended(self, child: Child) -> None:
        self.forget(child)
        self._children.pop(child, None)

    # -- writing, off the loop and in order

    def write(self, child: Child, data: bytes | None) -> None:
        """Write off the loop; None closes the pipe after all earlier writes."""
        waiting = self._writes.get(child)
        if waiting is not None:
            waiting.append(data)
            return
        self._writes[child] = []
        self._write(child, data)

    def _write(self, child: Child, data: bytes | None) -> None:
        def written(_result: object, _failure: BaseException | None) -> None:
            waiting = self._writes.pop(child)
            if waiting:
                self._writes[child] = waiting[1:]
                self._write(child, waiting[0])

        if data is None:
            self.workers.run(child.close_input, (), written)
        else:
            self.workers.run(child.write_now, (data,), written)

    def close(self) -> None:
        """Kill all children at the end of the node."""
        self._closed = True
        for child in list(self._children):
            child.kill_now()
        self._children.clear()
        self._idle.clear()


def _start() -> "subprocess.Popen[bytes]":
    """Start a child that finds modules where this process does: not in the current directory,
    unless this process does."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "penstock.real.child_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


# -- the child's side


class _NoWorkers:
    """Workers of the child: functions run at once, because the child does one thing at a time."""

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Done) -> None:
        try:
            result = function(*arguments)
        except Exception as failure:
            done(None, failure)
        else:
            done(result, None)


class _Forwarding(logging.Handler):
    """Sends log records of the child to the parent."""

    def __init__(self, send: Callable[[tuple[Any, ...]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send((_LOG, record.name, record.levelno, record.getMessage()))


class _OrderLoop:
    """Takes orders from the parent, one at a time, and answers."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders = os.fdopen(orders, "rb")
        self._answers = answers
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._stop = threading.Event()

    def send(self, message: tuple[Any, ...]) -> None:
        data = memoryview(_frame(message))
        with self._lock:
            while data:
                data = data[os.write(self._answers, data) :]

    def listen(self) -> None:
        """Read orders on a separate thread, so that a stop and the parent's end arrive at once."""
        while len(head := self._orders.read(_SIZE.size)) == _SIZE.size:
            message = pickle.loads(self._orders.read(_SIZE.unpack(head)[0]))
            match message[0]:
                case word if word == _PATH:
                    sys.path[:] = message[1]
                case word if word == _STOP:
                    self._stop.set()
                case _:
                    self._stop.clear()
                    self._queue.put(message)
        os._exit(0)  # the parent is gone or needs no more work

    def serve(self) -> None:
        while True:
            _word, function, root, group_access, arguments = self._queue.get()
            disk = RealDisk(root, _NoWorkers(), group_access=group_access)
            self._work(function, disk, arguments)

    def _work(self, function: str, disk: RealDisk, arguments: tuple[Any, ...]) -> None:
        try:
            module, _, name = function.partition(":")
            call = getattr(importlib.import_module(module), name)

            def say(value: Any) -> None:
                self.send((_HEARD, value))

            stop = self._stop
            result = call(
                *(disk, *arguments, say, stop.is_set),
                clock=time.monotonic,
                pause=stop.wait,  # ends early on a stop
                resident_bytes=resident_bytes,
            )
        except Exception as failure:
            self.send((_DONE, None, _picklable(failure)))
        else:
            self.send((_DONE, result, None))


def _picklable(failure: Exception) -> Exception:
    """Return the failure if pickle can restore it, else a RuntimeError with its text."""
    try:
        again = pickle.loads(pickle.dumps(failure))  # from this process
    except Exception:
        again = None
    if type(again) is type(failure):
        return failure
    return RuntimeError(f"{type(failure).__name__}: {failure}")


def main() -> None:
    """Run the child: orders arrive on standard input, answers leave on the
    former standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    orders, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # printed text must not land between the answers
    os.nice(NICENESS)
    loop = _OrderLoop(orders, answers)
    logging.basicConfig(handlers=[_Forwarding(loop.send)], level=logging.INFO)
    threading.Thread(target=loop.listen, name="listening", daemon=True).start()
    loop.serve()


if __name__ == "__main__":
    main()
